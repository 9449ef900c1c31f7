//! Simulates calls of nvpmodel (`jetson-platform.md`, sections 3.1 and 4.1).

use wattgate_board_tables::Preset;

pub use super::preset::{NvpmodelError, mode};
use super::state::State;

impl State {
    /// `nvpmodel -m <id>` with closed standard input: a mode with the same masks is set at once;
    /// one with other masks needs a reboot, which nobody confirms, so that the old mode stays
    /// (section 3.1).
    pub fn nvpmodel(&mut self, id: u32) -> Result<(), NvpmodelError> {
        let board = self.jetson.board();
        let wanted = mode(board, Some(id))?.clone();
        let running = mode(board, Some(self.mode))?;
        let masks = |mode: &Preset| (mode.tpc_pg_mask, mode.fbp_pg_mask);
        if masks(&wanted) != masks(running) {
            return Err(NvpmodelError::RebootRequired { id });
        }
        let board = board.clone();
        self.jetson
            .request(|settings| settings.enter(&board, &wanted));
        (self.mode, self.status) = (id, id);
        Ok(())
    }

    /// `nvpmodel -m <id>` within a container: reports success, but writes only the status file
    /// (section 4.1).
    pub fn nvpmodel_in_container(&mut self, id: u32) -> Result<(), NvpmodelError> {
        mode(self.jetson.board(), Some(id))?;
        self.status = id;
        Ok(())
    }

    /// `nvpmodel.service` runs again: it sets the mode of the status file once more and overwrites
    /// all minima and maxima (section 0, fact 9).
    pub fn nvpmodel_service(&mut self) -> Result<(), NvpmodelError> {
        self.nvpmodel(self.status)
    }
}
