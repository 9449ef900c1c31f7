//! The saved state: all settings before the daemon's first write, in a file that survives its end.
//!
//! The daemon leaves its mode on the board when it ends, and `wattgated restore` restores the saved state and
//! removes the file. So a file that exists at the start was left by an earlier process: the board still has that
//! process's settings, and the file holds the true saved state. A reboot sets the knobs anew: then the file is
//! discarded. Its first line, `boot_id ID`, tells the boot in which it was saved.
//!
//! A session of the profiler has a file of its own, `session`, since it restores at its end what was there at its
//! start. If it crashed and there is no saved state, the daemon takes the session's.
//!
//! A file without a boot id, as older versions write it, is trusted once, because it may be of this
//! boot: it gets the present boot id. Without a readable boot id any file is trusted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_board::{Board, Files, KnobError, RestoreError, Saved, SavedError};
use wattgate_cli::output::replace;
use wattgate_runtime::Milliseconds;

use crate::boot::BootId;

/// The daemon's file, and that of a session of the profiler.
const STATE_FILE: &str = "prior";
const SESSION_FILE: &str = "session";

/// The first word of the line with the boot id.
const BOOT_ID: &str = "boot_id ";

/// Interval of attempts to write the file after a failure.
const WRITE_RETRY_INTERVAL: Milliseconds = Milliseconds(60_000);

/// Why the state was not saved or not restored.
#[derive(Debug, Error)]
pub enum SavedStateError {
    /// A knob cannot be read.
    #[error("the state of the board cannot be saved: {0}")]
    Board(#[from] KnobError),
    /// The file cannot be read, written or removed.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The file is not one of settings.
    #[error("{}: the saved settings are damaged: {why}; reboot, which loses them, or delete the file", path.display())]
    Defect { path: PathBuf, why: SavedError },
    /// At least one setting was not restored. The file stays.
    #[error("{}: {}{why}; {}", path.display(), before(why), again(why))]
    Restore { path: PathBuf, why: RestoreError },
}

/// What became of the settings, where the error itself does not say it.
fn before(why: &RestoreError) -> &'static str {
    match why {
        RestoreError::UnknownKnob { .. } => "",
        RestoreError::Incomplete { .. } => "not all settings were restored: ",
    }
}

/// What to do about settings that were not restored.
fn again(why: &RestoreError) -> &'static str {
    match why {
        RestoreError::UnknownKnob { .. } => "delete the file, which is of another board",
        RestoreError::Incomplete { .. } => "`wattgated restore` tries again",
    }
}

/// The saved state and its file.
#[derive(Debug)]
pub struct SavedState {
    path: PathBuf,
    saved: Saved,
    origin: Origin,
    boot: Option<BootId>,
    /// Why the file could not be written. The state is in memory only.
    unwritten: Option<SavedStateError>,
    /// When the last attempt to write the file was.
    tried: Option<Milliseconds>,
}

/// Where a saved state comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Saved from the board at this start.
    Saved,
    /// Read from the file that an earlier process of this boot left.
    Left,
    /// Saved from the board at this start, because the file that was left is not usable.
    SavedAgain(Unusable),
}

/// Why a file that was left is not usable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// The file is defective.
    #[error("{0}")]
    Defect(#[from] SavedError),
    /// The board has been rebooted since.
    #[error("saved before the last boot")]
    OtherBoot,
}

impl SavedState {
    /// Reads the file that an earlier process left, or saves the board's settings. `root` is the
    /// root of the board's files. If the file cannot be written, the state is kept in memory: see
    /// [`Self::unwritten`].
    pub fn keep(
        board: &Board,
        files: &impl Files,
        root: &Path,
        directory: &Path,
    ) -> Result<Self, SavedStateError> {
        take_session(files, root, directory);
        Self::in_file(board, files, root, directory.join(STATE_FILE))
    }

    /// The same for a session of the profiler.
    pub fn of_session(
        board: &Board,
        files: &impl Files,
        root: &Path,
        directory: &Path,
    ) -> Result<Self, SavedStateError> {
        Self::in_file(board, files, root, directory.join(SESSION_FILE))
    }

    fn in_file(
        board: &Board,
        files: &impl Files,
        root: &Path,
        path: PathBuf,
    ) -> Result<Self, SavedStateError> {
        let boot = BootId::read(files, root);
        let origin = match left(&path)? {
            None => Origin::Saved,
            Some((Some(boot_of_file), _))
                if boot.as_ref().is_some_and(|it| *it != boot_of_file) =>
            {
                Origin::SavedAgain(Unusable::OtherBoot)
            }
            Some((_, Err(why))) => Origin::SavedAgain(why.into()),
            Some((boot_of_file, Ok(mut saved))) => {
                board.complete(files, &mut saved);
                let saved_state = Self::new(path, saved, Origin::Left, boot);
                if boot_of_file.is_none() && saved_state.boot.is_some() {
                    // Best effort: the file is as good as before.
                    let _ = saved_state.write();
                }
                return Ok(saved_state);
            }
        };
        let mut saved_state = Self::new(path, board.save(files)?, origin, boot);
        saved_state.unwritten = saved_state.write().err();
        Ok(saved_state)
    }

    /// The state that an earlier process of this boot left; `None` if there is none. A defective file is an error.
    pub fn left(
        files: &impl Files,
        root: &Path,
        directory: &Path,
    ) -> Result<Option<Self>, SavedStateError> {
        take_session(files, root, directory);
        let path = directory.join(STATE_FILE);
        let boot = BootId::read(files, root);
        match left(&path)? {
            None => Ok(None),
            Some((Some(boot_of_file), _))
                if boot.as_ref().is_some_and(|it| *it != boot_of_file) =>
            {
                Ok(None)
            }
            Some((_, Err(why))) => Err(SavedStateError::Defect { path, why }),
            Some((_, Ok(saved))) => Ok(Some(Self::new(path, saved, Origin::Left, boot))),
        }
    }

    fn new(path: PathBuf, saved: Saved, origin: Origin, boot: Option<BootId>) -> Self {
        Self {
            path,
            saved,
            origin,
            boot,
            unwritten: None,
            tried: None,
        }
    }

    /// Adds the settings of knobs and sensors that were found since.
    pub fn complete(&mut self, board: &Board, files: &impl Files) {
        if board.complete(files, &mut self.saved) {
            self.unwritten = self.write().err();
        }
    }

    /// Writes the file; it is on the disk when this returns.
    fn write(&self) -> Result<(), SavedStateError> {
        let directory = self.path.parent();
        let there = directory.map_or(Ok(()), fs::create_dir_all);
        let text = text(&self.saved, self.boot.as_ref());
        let written = there.and_then(|()| replace(&self.path, text.as_bytes()));
        written.map_err(|source| self.io(source))
    }

    /// Where the saved state comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The settings.
    pub fn saved(&self) -> &Saved {
        &self.saved
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why the file could not be written, such as a full disk: a crash then loses the saved state.
    pub fn unwritten(&self) -> Option<&SavedStateError> {
        self.unwritten.as_ref()
    }

    /// Fails if the file could not be written.
    pub fn written(mut self) -> Result<Self, SavedStateError> {
        match self.unwritten.take() {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Tries once a minute to write a file that could not be written. Returns whether it succeeded
    /// just now. Does not sync, which would block the control loop: a power loss ends the boot in
    /// which the file counts.
    pub fn retry(&mut self, now: Milliseconds) -> bool {
        if self.unwritten.is_none() {
            return false;
        }
        let tried = *self.tried.get_or_insert(now);
        if now.since(tried) < WRITE_RETRY_INTERVAL {
            return false;
        }
        self.tried = Some(now);
        let text = text(&self.saved, self.boot.as_ref());
        let new = self.path.with_extension("new");
        let there = self.path.parent().map_or(Ok(()), fs::create_dir_all);
        let written =
            there.and_then(|()| crate::replace::replace(&self.path, &new, 0o600, text.as_bytes()));
        if written.is_ok() {
            self.unwritten = None;
        }
        written.is_ok()
    }

    /// Restores the board's settings and removes the file; after a failure the file stays.
    pub fn restore(self, board: &mut Board, files: &mut impl Files) -> Result<(), SavedStateError> {
        if let Err(why) = board.restore(files, &self.saved) {
            let path = self.path;
            return Err(SavedStateError::Restore { path, why });
        }
        self.remove()
    }

    /// Leaves the file for the next start of this boot. If it could not be written, tries again.
    pub fn leave(self) -> Result<(), SavedStateError> {
        match self.unwritten {
            Some(_) => self.write(),
            None => Ok(()),
        }
    }

    /// Removes the file.
    pub fn remove(self) -> Result<(), SavedStateError> {
        match fs::remove_file(&self.path) {
            // It could not be written, or another program has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|source| self.io(source)),
        }
    }

    fn io(&self, source: io::Error) -> SavedStateError {
        let path = self.path.clone();
        SavedStateError::Io { path, source }
    }
}

/// Makes the file of a session that crashed the saved state, unless there is one of this boot, which is older.
fn take_session(files: &impl Files, root: &Path, directory: &Path) {
    let (path, session) = (directory.join(STATE_FILE), directory.join(SESSION_FILE));
    let boot = BootId::read(files, root);
    let is_of_this_boot = |(boot_of_file, saved): Left| {
        saved.is_ok() && (boot_of_file == boot || boot_of_file.is_none() || boot.is_none())
    };
    let has_saved_state = left(&path).is_ok_and(|it| it.is_some_and(is_of_this_boot));
    // Mostly there is no such file.
    let _ = match has_saved_state {
        true => fs::remove_file(&session),
        false => fs::rename(&session, &path),
    };
}

/// The boot in which a file was saved, if it names one, and the state in it.
type Left = (Option<BootId>, Result<Saved, SavedError>);

/// Reads the file that was left; `None` if there is none.
fn left(path: &Path) -> Result<Option<Left>, SavedStateError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(parse(&text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // The file is not UTF-8.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Ok(Some((None, Err(SavedError::NoEnd))))
        }
        Err(source) => {
            let path = path.to_owned();
            Err(SavedStateError::Io { path, source })
        }
    }
}

fn parse(text: &str) -> Left {
    let Some((first, rest)) = text.split_once('\n') else {
        return (None, text.parse());
    };
    match first.strip_prefix(BOOT_ID).and_then(BootId::parse) {
        Some(boot) => (Some(boot), rest.parse()),
        None => (None, text.parse()),
    }
}

fn text(saved: &Saved, boot: Option<&BootId>) -> String {
    match boot {
        Some(boot) => format!("{BOOT_ID}{}\n{saved}", boot.text()),
        None => saved.to_string(),
    }
}
