//! The steps of a workload, from the counts of its senders.
//!
//! A **counter** is a part of a program that counts steps and sends its count. A workload may have several: one in each of its
//! processes or threads, or a new one after it has begun again. They are told apart by the process of a datagram, which Linux
//! names, and by the address of the sender's socket, which our packages ask Linux for:
//!
//! - Counters of **the same name**, or of none, count the same steps, as the ranks of a
//!   data-parallel training do. The one that is ahead counts.
//! - Counts of **different names** are different work. They are added.
//! - A counter or a name that comes later begins at what is counted already, so that it adds what it
//!   does from then on. If its count is above that of the counters with its name it goes on from
//!   theirs: this is a loop in a shell, each step of which is another process.
//!
//! A sender may also report how long its steps waited for data and computed. With several senders these
//! times overlap, so they are used only if there is one sender. The samples of a step are used if there is
//! one name.
//!
//! In a container with process numbers of its own the address alone tells counters apart.

use wattgate_cli::steps::StepLine;

use super::Told;

/// Names that come after so many others are ignored. Of more counters with one name, the one is forgotten that has been silent
/// for longest.
const MOST_SENDERS: usize = 64;

/// What tells a counter of steps from others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The process; `None` where Linux does not tell.
    pub process: Option<i32>,
    /// The abstract address of its socket (unix(7)); `None` if the socket has none.
    pub address: Option<Vec<u8>>,
}

/// The senders of a workload, and the steps that their counts amount to.
#[derive(Debug, Default)]
pub struct Senders {
    steps: Option<u64>,
    /// What the last line told beside its count.
    told: Told,
    names: Vec<Name>,
}

/// The counters that send one name.
#[derive(Debug)]
struct Name {
    name: Option<String>,
    /// The count of the counter that is ahead.
    count: i128,
    /// The last one to send comes last.
    senders: Vec<Sender>,
}

#[derive(Debug)]
struct Sender {
    counter: Counter,
    last: u64,
    /// What is to be added to its count.
    offset: i128,
}

impl Senders {
    /// What the last line told beside its count. What may differ between counters is left out if there are several.
    pub fn told(&self) -> Told {
        match &self.names[..] {
            [name] if name.senders.len() == 1 => self.told,
            [_] => Told {
                items: self.told.items,
                ..Told::default()
            },
            _ => Told::default(),
        }
    }

    /// The name that the counters tell; `None` if none tells one, or if they tell several.
    pub fn name(&self) -> Option<&str> {
        let mut told = self.names.iter().filter_map(|it| it.name.as_deref());
        told.next().filter(|_| told.next().is_none())
    }

    /// Takes a line of a counter. Returns the steps of the workload if they have changed. They are
    /// less than before if the count of the counter is.
    pub fn take(&mut self, counter: Counter, line: StepLine) -> Option<u64> {
        self.told = Told {
            fetch_us: line.fetch_us,
            compute_us: line.compute_us,
            items: line.items.filter(|items| *items > 0),
        };
        let count = i128::from(line.steps);
        let before = self.steps;
        let steps = before.unwrap_or(line.steps);
        let known = self.names.iter().position(|it| it.name == line.name);
        let known = known.unwrap_or(self.names.len());
        if known == self.names.len() && known < MOST_SENDERS {
            self.names.push(Name {
                name: line.name,
                count,
                senders: Vec::new(),
            });
        }
        let name = self.names.get_mut(known)?;
        let known = name.senders.iter().position(|it| it.counter == counter);
        let mut sender = match known {
            Some(known) => name.senders.remove(known),
            None => Sender {
                counter,
                last: line.steps,
                offset: (name.count - count).max(0),
            },
        };
        let lost = sender.last.saturating_sub(line.steps);
        sender.last = line.steps;
        let ahead = (count + sender.offset - name.count).max(0);
        name.count += ahead;
        if name.senders.len() == MOST_SENDERS {
            name.senders.remove(0);
        }
        name.senders.push(sender);
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        let steps = steps.saturating_add(ahead).saturating_sub(lost);
        self.steps = Some(steps);
        (before != self.steps).then_some(steps)
    }
}
