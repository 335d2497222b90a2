//! The machines that come with Lockwork.

use super::Machine;

const FILES: &[(&str, &str)] = &[
    ("e7-4850.toml", include_str!("../../machines/e7-4850.toml")),
    ("opteron-6274.toml", include_str!("../../machines/opteron-6274.toml")),
    ("opteron-6172.toml", include_str!("../../machines/opteron-6172.toml")),
    ("e7-8870-v2.toml", include_str!("../../machines/e7-8870-v2.toml")),
    ("x6-2.toml", include_str!("../../machines/x6-2.toml")),
    ("x5-4.toml", include_str!("../../machines/x5-4.toml")),
    ("a-64.toml", include_str!("../../machines/a-64.toml")),
    ("a-48.toml", include_str!("../../machines/a-48.toml")),
    ("i-48.toml", include_str!("../../machines/i-48.toml")),
    ("i-20.toml", include_str!("../../machines/i-20.toml")),
    ("2s-64.toml", include_str!("../../machines/2s-64.toml")),
    ("chiplet-128.toml", include_str!("../../machines/chiplet-128.toml")),
    ("chiplet-64.toml", include_str!("../../machines/chiplet-64.toml")),
    ("arm-128.toml", include_str!("../../machines/arm-128.toml")),
];

/// All machines that come with Lockwork.
///
/// # Panics
///
/// If one of their files is wrong, which a test excludes.
#[must_use]
pub fn library() -> Vec<Machine> {
    let parse = |(file, text): &(&str, &str)| match Machine::parse(file, text) {
        Ok(machine) => machine,
        Err(error) => panic!("{error}"),
    };
    FILES.iter().map(parse).collect()
}

/// The file of the machine of this name.
#[must_use]
pub fn text_of(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(name)).map(|(_, text)| *text)
}

/// The machine of this name.
#[must_use]
pub fn named(name: &str) -> Option<Machine> {
    library().into_iter().find(|machine| machine.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_machines_with_names_of_their_own() {
        let machines = library();
        for (machine, (file, _)) in machines.iter().zip(FILES) {
            assert_eq!(format!("{}.toml", machine.name), *file);
            assert_eq!(named(&machine.name).as_ref(), Some(machine));
        }
    }

    #[test]
    fn the_papers_machines_have_the_papers_cores() {
        let cpus = |name| named(name).map(|machine| (machine.nodes, machine.cores(), machine.cpus()));
        assert_eq!(cpus("e7-4850"), Some((4, 40, 40)));
        assert_eq!(cpus("opteron-6274"), Some((8, 64, 64)));
        assert_eq!(cpus("opteron-6172"), Some((8, 48, 48)));
        assert_eq!(cpus("e7-8870-v2"), Some((8, 120, 120)));
        assert_eq!(cpus("x6-2"), Some((2, 20, 40)));
        assert_eq!(cpus("x5-4"), Some((4, 72, 144)));
        assert_eq!(cpus("a-64"), Some((8, 64, 64)));
        assert_eq!(cpus("a-48"), Some((8, 48, 48)));
        assert_eq!(cpus("i-48"), Some((4, 48, 48)));
        assert_eq!(cpus("i-20"), Some((2, 20, 20)));
    }
}
