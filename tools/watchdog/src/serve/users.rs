//! What each user of a socket may do: budgets of connections, requests, subscriptions and lines of the log. They belong
//! to the user, so that connecting again gains nothing. Root's socket has none but that of lines.

use wattgate_runtime::Milliseconds;

use super::rate_limit::RateCounter;
use crate::log::Lines;

/// Maximum number of connections of a user, and of those that subscribe.
pub const MAX_CONNECTIONS: usize = 8;
pub const MAX_SUBSCRIPTIONS: usize = 4;

/// More requests of a user in a second are refused, and at the second number the connection is closed.
pub const MAX_REQUESTS_PER_SECOND: u32 = 40;
pub const CLOSE_AT_REQUESTS: u32 = 2 * MAX_REQUESTS_PER_SECOND;

/// More connections of a user in a second are dropped.
pub const MAX_CONNECTS_PER_SECOND: u32 = 40;

/// Number of users that are remembered. One that was forgotten has full budgets.
const MAX_USERS: usize = 64;

/// The budgets of a user.
#[derive(Debug)]
pub struct User {
    uid: u32,
    pub requests: RateCounter,
    pub connects: RateCounter,
    pub lines: Lines,
    seen: Milliseconds,
}

/// The budgets of all users.
#[derive(Debug, Default)]
pub struct Users(Vec<User>);

impl Users {
    /// The budgets of a user, who does something now.
    pub fn entry(&mut self, uid: u32, now: Milliseconds) -> &mut User {
        let known = self.0.iter().position(|user| user.uid == uid);
        let at = known.unwrap_or_else(|| {
            let new = User {
                uid,
                requests: RateCounter::default(),
                connects: RateCounter::default(),
                lines: Lines::default(),
                seen: now,
            };
            let oldest = (0..self.0.len()).min_by_key(|&at| self.0[at].seen);
            match oldest.filter(|_| self.0.len() >= MAX_USERS) {
                Some(oldest) => {
                    self.0[oldest] = new;
                    oldest
                }
                None => {
                    self.0.push(new);
                    self.0.len() - 1
                }
            }
        });
        let user = &mut self.0[at];
        user.seen = now;
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_keeps_its_budgets_and_users_are_bounded() {
        let mut users = Users::default();
        let now = Milliseconds(5);
        assert_eq!(users.entry(1_000, now).requests.count(now), 1);
        assert_eq!(users.entry(1_001, now).requests.count(now), 1);
        assert_eq!(users.entry(1_000, now).requests.count(now), 2);
        for uid in 0..1_000 {
            users.entry(uid, Milliseconds(6));
        }
        assert_eq!(users.0.len(), MAX_USERS);
    }
}
