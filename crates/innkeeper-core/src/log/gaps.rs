//! Ranges of sequence numbers that no surviving action has: lost in a crash, or reserved and unused (P5).

use serde::{Deserialize, Serialize};

use crate::ids::Seq;

/// Most gaps that are remembered. A client that was absent for more restarts than this gets snapshots.
const MAX_GAPS: usize = 100;

/// Sequence numbers without a stored action: the host crashed before their actions were durable. A client that has seen
/// such a number has state that the host lost, so a replay cannot continue it, however many restarts ago that was.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Gaps {
    /// Gaps below this number are forgotten.
    before: u64,
    /// The last durable number, and the number after which the next run of the host started; oldest first.
    gaps: Vec<(u64, u64)>,
}

impl Gaps {
    /// Adds the gap of a host that restarts after `restarted` and has stored everything up to `stored`.
    pub(crate) fn add(&mut self, stored: Seq, restarted: Seq) {
        let mut gap = (stored.0, restarted.0);
        // The run before stored nothing, so its gap continues.
        while let Some(last) = self.gaps.pop_if(|last| last.1 >= gap.0) {
            gap.0 = gap.0.min(last.0);
        }
        self.gaps.push(gap);
        if self.gaps.len() > MAX_GAPS {
            let (_, end) = self.gaps.remove(0);
            self.before = self.before.max(end);
        }
    }

    /// Returns true if a client that has seen everything up to this number has no lost state.
    pub(crate) fn are_clear_of(&self, seq: Seq) -> bool {
        seq.0 >= self.before
            && !self
                .gaps
                .iter()
                .any(|(stored, restarted)| *stored < seq.0 && seq.0 < *restarted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p5_a_gap_is_remembered_in_every_later_life() {
        let mut gaps = Gaps::default();
        gaps.add(Seq(0), Seq(1_000));
        gaps.add(Seq(1_100), Seq(2_000));
        gaps.add(Seq(2_050), Seq(3_000));
        for (seq, clear) in [
            (500, false),
            (1_000, true),
            (1_100, true),
            (1_101, false),
            (1_999, false),
        ] {
            assert_eq!(gaps.are_clear_of(Seq(seq)), clear, "{seq}");
        }
        assert!(gaps.are_clear_of(Seq(2_050)) && !gaps.are_clear_of(Seq(2_051)) && gaps.are_clear_of(Seq(3_000)));
    }

    #[test]
    fn p5_a_life_of_which_nothing_was_kept_widens_the_gap_before_it() {
        let mut gaps = Gaps::default();
        gaps.add(Seq(100), Seq(1_000));
        gaps.add(Seq(100), Seq(2_000));
        assert_eq!(gaps.gaps, [(100, 2_000)]);
        gaps.add(Seq(2_000), Seq(3_000));
        assert_eq!(gaps.gaps, [(100, 3_000)]);
    }

    #[test]
    fn p5_gaps_are_bounded_and_older_ones_are_unknown() {
        let mut gaps = Gaps::default();
        for life in 0..300 {
            gaps.add(Seq(life * 1_000 + 10), Seq((life + 1) * 1_000));
        }
        assert_eq!(gaps.gaps.len(), MAX_GAPS);
        assert!(!gaps.are_clear_of(Seq(150_005)), "too long ago");
        assert!(gaps.are_clear_of(Seq(250_005)) && !gaps.are_clear_of(Seq(250_500)));
    }
}
