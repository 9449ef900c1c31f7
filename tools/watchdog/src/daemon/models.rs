//! The models of the daemon: which one is in force, and who may change it.

use std::path::{Component, PathBuf};
use std::rc::Rc;

use wattgate_board::Files;
use wattgate_runtime::Milliseconds;

use super::{ClientId, Daemon, SECOND};
use crate::config::Config;
use crate::limits::{MAX_LOWERINGS, Owner};
use crate::serve::protocol::Refused;
use crate::setup::{Choices, SetupError};

/// Time between two models. Each one makes the governor start anew.
const MODEL_INTERVAL: Milliseconds = Milliseconds(10_000);

/// A model and its file, if there is one. It stays in memory while another client's model is in force, so that
/// returning to it cannot fail.
#[derive(Debug)]
pub(super) struct Loaded {
    pub path: Option<PathBuf>,
    pub choices: Choices,
}

impl<F: Files> Daemon<F> {
    /// A model that the sensor has contradicted is not trusted when it returns after another one either.
    pub(super) fn remember_distrust(&mut self) {
        let now = self.control.choices();
        if now.distrust.is_none() || self.model.choices.distrust.is_some() {
            return;
        }
        let old = Rc::clone(&self.model);
        let new = Rc::new(Loaded {
            path: old.path.clone(),
            choices: now.clone(),
        });
        let leased = self.leases.iter_mut();
        let leased = leased.filter_map(|lease| lease.model.as_mut());
        let all = leased.chain([&mut self.base, &mut self.model]);
        for model in all.filter(|model| Rc::ptr_eq(model, &old)) {
            *model = Rc::clone(&new);
        }
    }

    /// Replaces the model by another file in the folder of models, by its name or path, at most one in ten seconds. The
    /// model of a lease overrides it.
    pub fn set_model(
        &mut self,
        name: &str,
        owner: Owner,
        now: Milliseconds,
    ) -> Result<(), Refused> {
        self.check_holds()?;
        self.check_leases(owner)?;
        self.base = self.load(name, owner, now)?;
        self.choose_model();
        Ok(())
    }

    /// Refuses to change the model under a lease of somebody else. Root may.
    fn check_leases(&self, owner: Owner) -> Result<(), Refused> {
        let mut others = self.leases.iter().map(|lease| &lease.leased.by);
        match others.find(|by| by.owner != owner && owner != Owner::Root) {
            Some(by) => {
                let message = format!("{by} has a lease; only root may change the model");
                Err(Refused::new("leased", message))
            }
            None => Ok(()),
        }
    }

    /// The model of a lease, which need not be loaded again if the client has it already.
    pub(super) fn load_again(
        &mut self,
        client: ClientId,
        name: &str,
        owner: Owner,
    ) -> Result<Rc<Loaded>, Refused> {
        let path = self.allowed(name)?;
        let leased = self.leases.iter().find(|lease| lease.client == client);
        let leased = leased.and_then(|lease| lease.model.as_ref());
        let same = leased
            .filter(|model| model.path.as_ref() == Some(&path))
            .map(Rc::clone);
        match same {
            Some(model) => Ok(model),
            None => {
                self.check_leases(owner)?;
                self.load(name, owner, self.now)
            }
        }
    }

    /// Root does not wait for what users have asked for.
    fn load(&mut self, name: &str, owner: Owner, now: Milliseconds) -> Result<Rc<Loaded>, Refused> {
        let path = self.allowed(name)?;
        self.asked.retain(|(_, last)| now.since(*last) < SECOND);
        let has_asked = self.asked.iter().any(|(it, _)| *it == owner);
        if has_asked || self.asked.len() > MAX_LOWERINGS {
            let message = "a user may try one model in a second; try again later";
            return Err(Refused::new("too_many_requests", message));
        }
        let is_soon = |last: Milliseconds| now.since(last) < MODEL_INTERVAL;
        if owner != Owner::Root && self.modelled.is_some_and(is_soon) {
            let message = "the daemon takes one model in 10 s; try again then";
            return Err(Refused::new("too_many_requests", message));
        }
        self.asked.push((owner, now));
        let config = Config {
            model: Some(path),
            ..self.config.clone()
        };
        let unit = self.base.choices.unit.id;
        let choices = Choices::read(&config, self.control.board(), unit).map_err(refused)?;
        if let Some(why) = choices.distrust {
            return Err(Refused::new("model_unsuitable", why));
        }
        self.modelled = Some(now);
        let path = config.model;
        Ok(Rc::new(Loaded { path, choices }))
    }

    /// Puts the model of the newest lease that has one in force, or else the one of the config or
    /// of [`Self::set_model`].
    pub(super) fn choose_model(&mut self) {
        let mut leased = self.leases.iter().rev();
        let leased = leased.find_map(|lease| lease.model.as_ref());
        let model = Rc::clone(leased.unwrap_or(&self.base));
        // Setting a model does not fail: `Choices::read` refuses one that does not suit.
        if Rc::ptr_eq(&model, &self.model) || self.control.set_model(&model.choices).is_err() {
            return;
        }
        self.changes += 1;
        let origin = &model.choices.origin;
        match &model.path {
            Some(path) => self.tell(format_args!("model is now {}: {origin}", path.display())),
            None => self.tell(format_args!("{origin}")),
        }
        self.model = model;
    }

    /// The path of a file in the folder of models; refuses other folders and symbolic links.
    fn allowed(&self, name: &str) -> Result<PathBuf, Refused> {
        let path = self.models.join(name);
        let is_name = matches!(path.components().next_back(), Some(Component::Normal(_)));
        match is_name && path.parent() == Some(&self.models) && !path.is_symlink() {
            true => Ok(path),
            false => {
                let folder = self.models.display();
                let message = format!(
                    "{name}: not a file in {folder}, the folder of the daemon's models; put it there"
                );
                Err(Refused::new("model_not_allowed", message))
            }
        }
    }
}

fn refused(error: SetupError) -> Refused {
    let name = match &error {
        SetupError::Model { .. } => "model_unreadable",
        SetupError::Format { .. } => "model_defective",
        SetupError::NoPower { .. }
        | SetupError::Confidence(_)
        | SetupError::NotProfiled { .. }
        | SetupError::NoCores { .. }
        | SetupError::OtherTpcs { .. }
        | SetupError::NoInput
        | SetupError::MeterOfModule { .. }
        | SetupError::Backstop(_)
        | SetupError::Grid(_)
        | SetupError::Tables(_)
        | SetupError::Board(_) => "model_unsuitable",
        SetupError::OtherBoard { .. } | SetupError::Nothing { .. } => "model_for_other_board",
    };
    Refused::new(name, error)
}
