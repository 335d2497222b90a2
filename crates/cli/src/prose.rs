//! The descriptors' prose, cut to fit a table.

/// What comes before explanations.
pub(crate) fn first_clause(text: &str) -> &str {
    text.split([':', ',', ';']).next().unwrap_or(text)
}

/// `Dice, Kogan 2019`. The year is the first behind the title: later ones are of other publications that the text names.
pub(crate) fn short_citation(text: &str) -> String {
    let all = text.split(':').next().unwrap_or(text);
    let authors = match all.split_once(',') {
        Some((first, rest)) if rest.contains(',') => format!("{first} et al."),
        _ => all.to_owned(),
    };
    let is_year = |digits: &&str| digits.len() == 4 && (digits.starts_with("19") || digits.starts_with("20"));
    let year = text.split(|c: char| !c.is_ascii_digit()).find(is_year).unwrap_or_default();
    format!("{authors} {year}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_shortened() {
        assert_eq!(
            short_citation("Dice, Kogan: Avoiding scalability collapse. Euro-Par 2019"),
            "Dice, Kogan 2019"
        );
        assert_eq!(
            short_citation("Magnusson, Landin, Hagersten: Queue locks. IPPS 1994 (also by Craig, 1993)"),
            "Magnusson et al. 1994"
        );
        assert_eq!(
            short_citation("Magnusson, Landin, Hagersten: Queue locks. IPPS 1994"),
            "Magnusson et al. 1994"
        );
        assert_eq!(short_citation("Dice, Kogan: Locks. PPoPP 2025, arXiv 2501.02380"), "Dice, Kogan 2025");
        assert_eq!(short_citation("folklore"), "folklore");
    }
}
