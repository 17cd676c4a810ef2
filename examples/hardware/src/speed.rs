//! [`Speed`]: speed and size of the device.

use std::env;
use std::time::Duration;

/// Parameters of the device. [`Speed::from_environment`] reads them from the variables named here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Number of devices (`SLOW_DEVICE_COUNT`, 2).
    pub devices: usize,
    /// Bytes of memory of each device (`SLOW_DEVICE_MEMORY_MB`, 4096 MiB).
    pub memory: u64,
    /// Latency of a launch (`SLOW_DEVICE_LAUNCH_US`, 20 microseconds).
    pub launch: Duration,
    /// Latency of a copy (`SLOW_DEVICE_COPY_US`, 20 microseconds).
    pub copy: Duration,
    /// Bytes per second of a copy (`SLOW_DEVICE_GB_PER_S`, 4 GB/s; 0: as fast as the processor copies).
    pub bandwidth: f64,
    /// Bytes of the staging buffer of a copy engine (`SLOW_DEVICE_STAGING_KB`, 256 KiB).
    pub staging: usize,
    /// Tasks of one stream that it takes at a time (`SLOW_DEVICE_DEPTH`, 1). Their latencies pass at the same time.
    pub depth: usize,
}

impl Default for Speed {
    fn default() -> Self {
        let latency = Duration::from_micros(20);
        Self { devices: 2, memory: 4 << 30, launch: latency, copy: latency, bandwidth: 4e9, staging: 256 << 10, depth: 1 }
    }
}

impl Speed {
    /// Reads the parameters from the environment.
    ///
    /// # Errors
    /// A sentence that names the malformed variable.
    pub fn from_environment() -> Result<Self, String> {
        Self::read(|name| env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let default = Self::default();
        let number = |name: &str, default: f64, least: f64, most: f64| match variable(name) {
            None => Ok(default),
            Some(text) => match text.trim().parse::<f64>() {
                Ok(value) if (least..=most).contains(&value) => Ok(value),
                _ => Err(format!("{name}={text:?} is not valid: it accepts a number from {least} to {most}")),
            },
        };
        let microseconds = |name: &str, default: Duration| {
            number(name, default.as_secs_f64() * 1e6, 0.0, 1e9).map(|value| Duration::from_secs_f64(value * 1e-6))
        };
        Ok(Self {
            devices: number("SLOW_DEVICE_COUNT", default.devices as f64, 1.0, 64.0)? as usize,
            memory: (number("SLOW_DEVICE_MEMORY_MB", (default.memory >> 20) as f64, 2.0, 1e9)? as u64) << 20,
            launch: microseconds("SLOW_DEVICE_LAUNCH_US", default.launch)?,
            copy: microseconds("SLOW_DEVICE_COPY_US", default.copy)?,
            bandwidth: number("SLOW_DEVICE_GB_PER_S", default.bandwidth * 1e-9, 0.0, 1e6)? * 1e9,
            staging: (number("SLOW_DEVICE_STAGING_KB", (default.staging >> 10) as f64, 1.0, 1e6)? as usize) << 10,
            depth: number("SLOW_DEVICE_DEPTH", default.depth as f64, 1.0, 1024.0)? as usize,
        })
    }

    /// The time that a copy of this many bytes takes.
    pub fn time_of(&self, bytes: usize) -> Duration {
        if self.bandwidth > 0.0 { Duration::from_secs_f64(bytes as f64 / self.bandwidth) } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_in_their_units() {
        let variables = [
            ("SLOW_DEVICE_COUNT", "3"),
            ("SLOW_DEVICE_MEMORY_MB", "16"),
            ("SLOW_DEVICE_LAUNCH_US", "1500"),
            ("SLOW_DEVICE_COPY_US", "0.5"),
            ("SLOW_DEVICE_GB_PER_S", "2"),
            ("SLOW_DEVICE_STAGING_KB", "8"),
            ("SLOW_DEVICE_DEPTH", "4"),
        ];
        let speed = Speed::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()));
        let expected = Speed {
            devices: 3,
            memory: 16 << 20,
            launch: Duration::from_micros(1500),
            copy: Duration::from_nanos(500),
            bandwidth: 2e9,
            staging: 8 << 10,
            depth: 4,
        };
        assert_eq!(speed, Ok(expected));
        assert_eq!(expected.time_of(1_000_000), Duration::from_micros(500));
        assert_eq!(Speed { bandwidth: 0.0, ..expected }.time_of(1_000_000), Duration::ZERO);
        assert_eq!(Speed::read(|_| None), Ok(Speed::default()));
    }

    #[test]
    fn what_is_malformed_is_named() {
        for value in ["", "fast", "-1", "1e30", "nan"] {
            let text = Speed::read(|name| (name == "SLOW_DEVICE_COPY_US").then(|| value.to_owned())).unwrap_err();
            assert!(text.contains("SLOW_DEVICE_COPY_US") && text.contains(&format!("{value:?}")), "{text}");
        }
    }
}
