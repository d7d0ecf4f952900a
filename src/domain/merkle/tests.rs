//! The tree against its definition: roots, frontiers, and proofs that hold or must not.

// Tests may panic on overflow.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing)]

use super::{
    Error, Frontier, Hash, LeafHasher, LeafInput, empty_root, node,
    proof::{self, consistency, inclusion, verify_consistency, verify_inclusion},
};
use proptest::prelude::*;

/// The definition, word for word (RFC 6962, 2.1): slow and obvious.
fn slow_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => empty_root(),
        [one] => *one,
        many => {
            let mut k = 1;
            while k * 2 < many.len() {
                k *= 2;
            }
            node(&slow_root(&many[..k]), &slow_root(&many[k..]))
        }
    }
}

/// PATH(m, D[n]) of RFC 6962, 2.1.1.
fn slow_path(m: usize, leaves: &[Hash]) -> Vec<Hash> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let mut k = 1;
    while k * 2 < leaves.len() {
        k *= 2;
    }
    let (left, right) = leaves.split_at(k);
    let (mut path, other) = if m < k {
        (slow_path(m, left), slow_root(right))
    } else {
        (slow_path(m - k, right), slow_root(left))
    };
    path.push(other);
    path
}

/// SUBPROOF(m, D[n], whole) of RFC 6962, 2.1.2.
fn slow_subproof(m: usize, leaves: &[Hash], whole: bool) -> Vec<Hash> {
    if m == leaves.len() {
        return if whole { Vec::new() } else { vec![slow_root(leaves)] };
    }
    let mut k = 1;
    while k * 2 < leaves.len() {
        k *= 2;
    }
    let (left, right) = leaves.split_at(k);
    let (mut path, other) = if m <= k {
        (slow_subproof(m, left, whole), slow_root(right))
    } else {
        (slow_subproof(m - k, right, false), slow_root(left))
    };
    path.push(other);
    path
}

fn leaves(n: usize, salt: u64) -> Vec<Hash> {
    let input = LeafInput {
        id: "",
        type_name: "",
        source: "",
        subject: "",
        time: "",
        recorded_at: "",
        data: b"{}",
    };
    (0..n as u64).map(|i| LeafHasher::default().leaf(i ^ (salt << 32), &input)).collect()
}

fn frontier(leaves: &[Hash]) -> Frontier {
    let mut frontier = Frontier::default();
    leaves.iter().for_each(|leaf| frontier.append(*leaf));
    frontier
}

#[test]
fn every_proof_of_every_small_tree_follows_the_definition_and_verifies() {
    let all = leaves(34, 0);
    for n in 1..all.len() {
        let tree = &all[..n];
        let root = frontier(tree).root();
        assert_eq!(root, slow_root(tree), "root of {n}");
        for m in 0..n {
            let path = inclusion(m as u64 + 1, n as u64, tree.iter().copied()).unwrap();
            assert_eq!(path, slow_path(m, tree), "path of {m} in {n}");
            for claimed in 0..=n as u64 + 1 {
                let holds = verify_inclusion(claimed, n as u64, tree[m], &path, &root);
                assert_eq!(holds, claimed == m as u64 + 1, "{m} claimed as {claimed} in {n}");
            }
        }
        for m in 1..=n {
            let path = consistency(m as u64, n as u64, tree.iter().copied()).unwrap();
            assert_eq!(path, slow_subproof(m, tree, true), "{m} in {n}");
            let old = slow_root(&tree[..m]);
            assert!(verify_consistency(m as u64, n as u64, &old, &root, &path), "{m} in {n}");
        }
    }
}

proptest! {
    #[test]
    fn frontier_equals_the_definition_at_every_size_and_resumes(n in 0_usize..600, cut in 0_usize..600) {
        let all = leaves(n, 1);
        let cut = cut.min(n);
        let first = frontier(&all[..cut]);
        let stored = serde_json::to_string(&first).unwrap();
        let mut resumed: Frontier = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(&resumed, &first);
        all[cut..].iter().for_each(|leaf| resumed.append(*leaf));
        prop_assert_eq!(resumed.root(), slow_root(&all));
        prop_assert_eq!(resumed.position(), n as u64);
    }

    #[test]
    fn no_changed_proof_verifies(n in 2_usize..300, m in 0_usize..300, hit in 0_usize..20, bit in 0_usize..256) {
        let all = leaves(n, 2);
        let m = m % n;
        let root = slow_root(&all);
        let position = m as u64 + 1;
        let mut path = inclusion(position, n as u64, all.iter().copied()).unwrap();
        let i = hit % path.len();
        path[i].0[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!verify_inclusion(position, n as u64, all[m], &path, &root));
        path[i].0[bit / 8] ^= 1 << (bit % 8);
        let last = path.pop().unwrap();
        prop_assert!(!verify_inclusion(position, n as u64, all[m], &path, &root));
        path.extend([last, last]);
        prop_assert!(!verify_inclusion(position, n as u64, all[m], &path, &root));
    }

    #[test]
    fn no_rewritten_history_is_consistent(n in 2_usize..300, m in 1_usize..300, changed in 0_usize..300) {
        let m = 1 + m % (n - 1);
        let honest = leaves(n, 3);
        let old = slow_root(&honest[..m]);
        let mut forged = honest.clone();
        forged[changed % m].0[0] ^= 1;
        let root = slow_root(&forged);
        let path = consistency(m as u64, n as u64, forged.iter().copied()).unwrap();
        prop_assert!(!verify_consistency(m as u64, n as u64, &old, &root, &path));
    }
}

#[test]
fn proofs_of_nothing_and_beyond_are_refused() {
    let all = leaves(3, 0);
    let beyond = inclusion(4, 3, all.iter().copied());
    assert_eq!(beyond, Err(proof::Error::NotInTree { position: 4, size: 3 }));
    assert!(inclusion(0, 3, all.iter().copied()).is_err());
    let short = inclusion(1, 5, all.iter().copied());
    assert_eq!(short, Err(proof::Error::TooFewLeaves { size: 5, found: 3 }));
    assert!(verify_consistency(0, 3, &empty_root(), &slow_root(&all), &[]));
    assert!(!verify_consistency(4, 3, &slow_root(&all), &slow_root(&all), &[]));
}

#[test]
fn the_empty_tree_and_hex_are_as_written() {
    let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(empty_root().to_string(), empty);
    assert_eq!(empty.parse(), Ok(empty_root()));
    for bad in ["", "af", &empty.to_uppercase(), &empty.replace('a', "g"), &format!("{empty}00")] {
        assert!(matches!(bad.parse::<Hash>(), Err(Error::NotAHash(_))), "{bad}");
    }
    assert!(Frontier::resume(5, vec![Hash::default()]).is_err());
}
