//! Chance that can be repeated: SplitMix64, a few lines that never change, so that a seed means the same for ever.

/// A stream of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(super) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 where there is none.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        // The high half of a product with 64 random bits is below `n`, and as even as matters here.
        let product = u128::from(self.bits()).wrapping_mul(u128::from(n));
        u64::try_from(product >> 64).unwrap_or_default()
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.saturating_sub(low).max(0).unsigned_abs().saturating_add(1);
        low.saturating_add_unsigned(self.below(span))
    }

    /// A uid, as the API server makes them.
    pub(super) fn uuid(&mut self) -> String {
        let (a, b) = (self.bits(), self.bits());
        let variant = 0x8000 | (b >> 48) & 0x3fff;
        format!(
            "{:08x}-{:04x}-4{:03x}-{variant:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            b & 0xffff_ffff_ffff
        )
    }

    /// What a controller puts behind the name of a pod.
    pub(super) fn suffix(&mut self) -> String {
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.bits();
        let letter = |_| {
            let at = usize::try_from(bits % 27).unwrap_or_default();
            bits /= 27;
            char::from(*LETTERS.get(at).unwrap_or(&b'b'))
        };
        (0..5).map(letter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut random = Random::new(1);
        assert_eq!(random.bits(), 0x910a_2dec_8902_5cc1);
        assert_eq!(random.bits(), 0xbeeb_8da1_658e_ec67);
        assert_ne!(Random::new(2).bits(), Random::new(1).bits());
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_both_ends() {
        let mut random = Random::new(7);
        let seen: std::collections::BTreeSet<_> =
            (0..1000).map(|_| random.between(-2, 3)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-2, -1, 0, 1, 2, 3]);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.between(5, 5), 5);
    }

    #[test]
    fn uids_look_like_those_of_an_api_server() {
        let uid = Random::new(3).uuid();
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{uid}");
    }
}
