//! A list of bounded length, stored in place.

use core::ops::Deref;

use heapless::Vec;
use serde::{Deserialize, Serialize};

/// At most `N` values, stored in place. It reads as a slice.
///
/// ```
/// use wattgate_runtime::format::List;
///
/// let list: List<u32, 4> = [1, 2, 3].into_iter().collect();
/// assert_eq!(*list, [1, 2, 3]);
/// let full: List<u32, 2> = [1, 2, 3].into_iter().collect();
/// assert_eq!(*full, [1, 2]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct List<T, const N: usize>(Vec<T, N>);

impl<T, const N: usize> List<T, N> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a value. A full list returns it as the error.
    pub fn push(&mut self, value: T) -> Result<(), T> {
        self.0.push(value)
    }
}

impl<T, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Deref for List<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const N: usize> FromIterator<T> for List<T, N> {
    /// Collects the first `N` values and ignores the rest.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().take(N).collect())
    }
}
