//! The machine that the devices of a profile are in: `RUSTDEV_CLUSTER`.

use super::refused;
use crate::runtime::Error;

/// The name of a link, GB/s (bytes per nanosecond) in one direction for each device, and nanoseconds of a step over it.
type Link = (&'static str, f64, f64);

/// Links between the devices of a node. Rates: data sheets of V100, A100, H100 and B200 (NVLink 2 to 5), MI300X (Infinity Fabric),
/// and PCI Express with 16 lanes. The times of a step are estimates.
const INSIDE: [Link; 8] = [
    ("nvlink2", 150.0, 2500.0),
    ("nvlink3", 300.0, 2500.0),
    ("nvlink4", 450.0, 2500.0),
    ("nvlink5", 900.0, 2500.0),
    ("xgmi3", 448.0, 2500.0),
    ("pcie3", 16.0, 5000.0),
    ("pcie4", 32.0, 5000.0),
    ("pcie5", 64.0, 5000.0),
];
/// Links between nodes, with one adapter for each device: InfiniBand and Ethernet, by Gb/s.
const BETWEEN: [Link; 8] = [
    ("ib100", 12.5, 8000.0),
    ("ib200", 25.0, 8000.0),
    ("ib400", 50.0, 8000.0),
    ("eth10", 1.25, 20_000.0),
    ("eth25", 3.125, 20_000.0),
    ("eth100", 12.5, 15_000.0),
    ("eth200", 25.0, 15_000.0),
    ("eth400", 50.0, 15_000.0),
];
const STEP_NS: f64 = 2500.0;

/// A cluster of equal nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// Devices of a node. Rank r is on node r / gpus.
    pub gpus: u64,
    /// GB/s between devices of a node, and nanoseconds of a step. `None`: the rate of the profile.
    pub inside: Option<(f64, f64)>,
    /// GB/s between nodes, and nanoseconds of a step.
    pub between: (f64, f64),
}

impl Default for Cluster {
    fn default() -> Self {
        Self { gpus: 8, inside: None, between: (25.0, 8000.0) }
    }
}

impl Cluster {
    /// Parses the value of the variable `name`.
    pub(super) fn parse(name: &str, value: &str) -> Result<Self, Error> {
        let mut cluster = Self::default();
        let find =
            |links: &[Link], wanted: &str| links.iter().find(|(link, ..)| *link == wanted).map(|(_, rate, step)| (*rate, *step));
        for pair in value.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, setting) = pair.split_once(':').unwrap_or((pair, ""));
            let (key, setting) = (key.trim(), setting.trim());
            let is_accepted = match key {
                "gpus" => setting.parse().ok().filter(|gpus| (1..=1024).contains(gpus)).map(|gpus| cluster.gpus = gpus).is_some(),
                "inside" => find(&INSIDE, setting).map(|link| cluster.inside = Some(link)).is_some(),
                "between" => find(&BETWEEN, setting).map(|link| cluster.between = link).is_some(),
                _ => false,
            };
            if !is_accepted {
                let accepts = format!(
                    "key:value pairs separated by commas, with the keys gpus (1 to 1024), inside ({}) and between ({})",
                    names(&INSIDE),
                    names(&BETWEEN)
                );
                return Err(refused(name, pair, &accepts));
            }
        }
        Ok(cluster)
    }

    /// GB/s between devices of a node, and nanoseconds of a step. `peer`: the rate of the profile.
    pub fn inside(&self, peer: f64) -> (f64, f64) {
        self.inside.unwrap_or((peer, STEP_NS))
    }
}

fn names(links: &[Link]) -> String {
    links.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_names() {
        let cluster = Cluster::parse("A", "gpus:4, inside:nvlink4,between:ib400").unwrap();
        assert_eq!((cluster.gpus, cluster.inside(1.0), cluster.between), (4, (450.0, 2500.0), (50.0, 8000.0)));
        assert_eq!(Cluster::parse("A", "").unwrap().inside(1.0), (1.0, STEP_NS));
        for wrong in ["gpus:0", "inside:ib400", "between", "nodes:2"] {
            let error = Cluster::parse("A", wrong).unwrap_err();
            assert!(error.message().contains("nvlink4"), "{}", error.message());
        }
    }
}
