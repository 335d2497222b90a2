//! Values of flags that several commands take.

/// A time-out in seconds.
pub(crate) fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let value: f64 =
        text.parse().map_err(|_| "a number of seconds is expected, such as 60 or 2.5".to_owned())?;
    if !(0.01..=1e7).contains(&value) {
        return Err("between 0.01 and 10,000,000 seconds are possible".to_owned());
    }
    Ok(std::time::Duration::from_secs_f64(value))
}
