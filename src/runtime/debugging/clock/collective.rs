//! The durations of collectives: ring and tree formulas over the links of a cluster.
//!
//! In a ring of n ranks each rank sends (n - 1) / n of the bytes of an all-gather or a reduce-scatter, in n - 1 steps, and twice
//! that for an all-reduce (`PERFORMANCE.md` of nccl-tests). A ring crosses from node to node once for each device of a node, each
//! time by that device's adapter, so between nodes its rate is the sum of a node's adapters, at most the rate inside. A double
//! binary tree all-reduces in steps of the logarithm of the nodes ("Massively Scale Your Deep Learning Training with NCCL 2.4",
//! NVIDIA, 2019); the faster one counts.

use crate::runtime::config::{Cluster, Profile};

/// The part of a link's rate that collectives reach.
const RATE: f64 = 0.78;
/// Nanoseconds of a collective of nothing: its kernel, and the first handshake.
const COLLECTIVE_NS: f64 = 8000.0;

/// How a collective moves its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Each rank gets all bytes, or reduces all bytes into its part.
    Gather,
    /// Each rank gets the reduction of all bytes.
    AllReduce,
    /// One rank sends all bytes to the others, or reduces theirs.
    Broadcast,
    /// Each rank sends a different part of its bytes to each rank.
    AllToAll,
    /// One rank sends its bytes to another.
    Message,
}

/// The ranks that take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    pub count: u64,
    pub nodes: u64,
}

impl Ranks {
    /// The ranks with these numbers in the cluster.
    pub fn new(numbers: &[u64], cluster: &Cluster) -> Self {
        let mut nodes: Vec<_> = numbers.iter().map(|rank| rank / cluster.gpus).collect();
        nodes.sort_unstable();
        nodes.dedup();
        Self { count: numbers.len() as u64, nodes: nodes.len() as u64 }
    }
}

/// Nanoseconds of a collective. `bytes`: those of a rank's larger side, input or output.
pub fn duration(profile: &Profile, cluster: &Cluster, pattern: Pattern, ranks: Ranks, bytes: u64) -> u64 {
    let (count, nodes, bytes) = (ranks.count as f64, ranks.nodes.max(1) as f64, bytes as f64);
    if count <= 1.0 {
        // A copy within the device.
        return (COLLECTIVE_NS + 2.0 * bytes / (profile.gigabytes_per_second.memory * RATE)) as u64;
    }
    let ((inside, step), (between, hop)) = (cluster.inside(profile.gigabytes_per_second.peer()), cluster.between);
    let per_node = count / nodes;
    let is_alone = ranks.nodes <= 1;
    let ring = if is_alone { inside } else { inside.min(between * per_node) } * RATE;
    let latency = (count - nodes) * step + if is_alone { 0.0 } else { nodes * hop };
    let part = (count - 1.0) / count;
    let time = match pattern {
        Pattern::Gather => part * bytes / ring + latency,
        Pattern::AllReduce => {
            let tree = 2.0 * bytes / ring + 2.0 * (levels(ranks.nodes) * hop + (per_node - 1.0) * step);
            tree.min(2.0 * part * bytes / ring + 2.0 * latency)
        }
        Pattern::Broadcast => bytes / ring + latency,
        Pattern::AllToAll => {
            let away = (count - per_node) / count;
            let outside = if is_alone { 0.0 } else { away * bytes / (between * RATE) };
            outside.max((part - away) * bytes / (inside * RATE)) + if is_alone { step } else { hop }
        }
        Pattern::Message if is_alone => bytes / (inside * RATE) + step,
        Pattern::Message => bytes / (between * RATE) + hop,
    };
    (COLLECTIVE_NS + time) as u64
}

/// The levels of a binary tree.
fn levels(nodes: u64) -> f64 {
    f64::from(nodes.max(1).next_power_of_two().trailing_zeros())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::runtime::config::find_profile;

    fn of(pattern: Pattern, ranks: u64, bytes: u64) -> f64 {
        let cluster = Cluster::default();
        let numbers: Vec<_> = (0..ranks).collect();
        duration(find_profile("a100-80g").unwrap(), &cluster, pattern, Ranks::new(&numbers, &cluster), bytes) as f64
    }

    #[test]
    fn ranks_are_on_nodes_in_their_order() {
        let cluster = Cluster::default();
        assert_eq!(Ranks::new(&[0, 8, 16, 17], &cluster), Ranks { count: 4, nodes: 3 });
    }

    #[test]
    fn a_tree_saves_steps_of_small_all_reduces() {
        let steps = of(Pattern::Gather, 1024, 8);
        assert!(of(Pattern::AllReduce, 1024, 8) < steps / 5.0);
    }
}
