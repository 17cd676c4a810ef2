//! Settings of the allocator: `RUSTDEV_ALLOC_CONF`, or `PYTORCH_ALLOC_CONF` if that is unset.

use super::refused;
use crate::runtime::Error;

const ACCEPTS: &str = "key:value pairs separated by commas, with the keys max_split_size_mb (at least 20) and \
    garbage_collection_threshold (between 0 and 1)";

/// PyTorch's own variable; keys in it that rustdev does not know are ignored, because they are for other devices.
const PYTORCH: &str = "PYTORCH_ALLOC_CONF";

/// Settings of the caching allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AllocConf {
    /// Blocks of this many bytes or more are never split; no limit by default.
    pub max_split_size: Option<u64>,
    /// The fraction of the budget above which cached segments are released before more memory is committed; off by default.
    pub garbage_collection_threshold: Option<f64>,
}

impl AllocConf {
    /// Parses the value of the variable `name`.
    pub(super) fn parse(name: &str, value: &str) -> Result<Self, Error> {
        let mut conf = Self::default();
        for pair in pairs(value) {
            let (key, setting) = pair.split_once(':').unwrap_or((pair, ""));
            let (key, setting) = (key.trim(), setting.trim());
            let accepted = match key {
                "max_split_size_mb" => {
                    let mib = setting.parse::<u64>().ok().filter(|mib| (20..1 << 40).contains(mib));
                    conf.max_split_size = mib.map(|mib| mib << 20);
                    mib.is_some()
                }
                "garbage_collection_threshold" => {
                    conf.garbage_collection_threshold = setting.parse().ok().filter(|share| *share > 0.0 && *share < 1.0);
                    conf.garbage_collection_threshold.is_some()
                }
                _ => name == PYTORCH,
            };
            if !accepted {
                return Err(refused(name, pair.trim(), ACCEPTS));
            }
        }
        Ok(conf)
    }
}

/// The comma-separated pairs of a list; commas inside brackets belong to a value.
fn pairs(value: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    value
        .split(move |letter| {
            match letter {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        })
        .filter(|pair| !pair.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_keys_are_ignored_in_pytorchs_own_variable_only() {
        for foreign in
            ["expandable_segments:True", "roundup_power2_divisions:[256:1,512:2]", "pinned_max_cached_size_mb:64", "new_key"]
        {
            let text = format!("{foreign},max_split_size_mb:32");
            assert_eq!(AllocConf::parse(PYTORCH, &text).unwrap().max_split_size, Some(32 << 20), "{text}");
            assert!(AllocConf::parse("RUSTDEV_ALLOC_CONF", &text).is_err(), "{text}");
        }
    }

    #[test]
    fn wrong_settings_are_refused() {
        for text in ["max_split_size_mb:3", "max_split_size_mb", "garbage_collection_threshold:1.5", "max_split_size_mb:x"] {
            assert!(AllocConf::parse("RUSTDEV_ALLOC_CONF", text).is_err(), "{text}");
            assert!(AllocConf::parse(PYTORCH, text).is_err(), "{text}");
        }
    }
}
