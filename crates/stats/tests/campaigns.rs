//! A thousand synthetic campaigns on a host that drifts, with differences known beforehand: how often a difference is claimed
//! where there is none, and how often one is found where there is.

use std::fmt::Write;

use lockwork_stats::{Finding, MIN_PAIRS, compare, median};

const CAMPAIGNS: u64 = 1_000;

/// The true ratios to the baseline. Every campaign has a lock for each.
const TRUE_RATIOS: [f64; 5] = [1.0, 1.02, 1.05, 1.1, 1.5];

/// What one run adds to the drift of its round.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    /// Normal, 2%.
    Normal,
    /// Student's t with two degrees of freedom, 1%.
    HeavyTails,
    /// Mostly 1%, and one run in ten loses half.
    Outliers,
    /// Runs are in one of two states, 5% apart.
    TwoStates,
}

const NOISES: [Noise; 4] = [Noise::Normal, Noise::HeavyTails, Noise::Outliers, Noise::TwoStates];

fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

impl Noise {
    fn draw(self, random: &mut fastrand::Rng) -> f64 {
        let logarithm = match self {
            Noise::Normal => 0.02 * normal(random),
            Noise::HeavyTails => 0.01 * normal(random) / (-(1.0 - random.f64()).ln()).sqrt(),
            Noise::Outliers => 0.01 * normal(random) - if random.u8(..10) == 0 { 0.7 } else { 0.0 },
            Noise::TwoStates => 0.005 * normal(random) + if random.bool() { 0.05 } else { 0.0 },
        };
        logarithm.exp()
    }
}

/// The speed of the host by round: a trend, a random walk, and steps when a neighbour comes or goes.
fn drift(rounds: u32, random: &mut fastrand::Rng) -> Vec<f64> {
    let trend = 0.03 * normal(random);
    let mut level: f64 = 0.0;
    (0..rounds)
        .map(|_| {
            level += trend + 0.05 * normal(random);
            if random.u8(..6) == 0 {
                level += 0.5 * normal(random);
            }
            level.exp()
        })
        .collect()
}

/// The verdict by medians of each side, resampled apart: a difference is claimed where the two intervals do not overlap and
/// the interval of the ratio of the medians excludes 1.
fn unpaired_verdict(own: &[f64], baseline: &[f64], seed: u64) -> Finding {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut resampled = |values: &[f64]| {
        let drawn: Vec<f64> = values.iter().map(|_| values[random.usize(..values.len())]).collect();
        median(&drawn).unwrap()
    };
    let mut draws: [Vec<f64>; 3] = Default::default();
    for _ in 0..1_000 {
        let (left, right) = (resampled(own), resampled(baseline));
        for (draws, value) in draws.iter_mut().zip([left, right, left / right]) {
            draws.push(value);
        }
    }
    let [own, baseline, ratio] = draws.map(|mut draws| {
        draws.sort_unstable_by(f64::total_cmp);
        (draws[25], draws[974])
    });
    let overlap = own.0 <= baseline.1 && baseline.0 <= own.1;
    match ratio {
        (low, high) if overlap || (low <= 1.0 && 1.0 <= high) => Finding::NoDifference,
        (low, _) if low > 1.0 => Finding::Higher,
        _ => Finding::Lower,
    }
}

/// Counts of one cell of the table: by noise and true ratio.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    comparisons: u32,
    paired: u32,
    unpaired: u32,
    /// Claims of the wrong direction.
    reversed: u32,
}

impl Count {
    fn share(self, claims: u32) -> f64 {
        f64::from(claims) / f64::from(self.comparisons)
    }
}

fn campaign(number: u64, counts: &mut [[Count; TRUE_RATIOS.len()]; NOISES.len()]) {
    let mut random = fastrand::Rng::with_seed(number);
    let kind = number as usize % NOISES.len();
    let rounds = random.u32(MIN_PAIRS as u32..=15);
    let drift = drift(rounds, &mut random);
    let mut runs = |ratio: f64| -> Vec<(u32, f64)> {
        (0..rounds)
            .map(|round| (round, ratio * drift[round as usize] * NOISES[kind].draw(&mut random)))
            .collect()
    };
    let baseline = runs(1.0);
    let values = |series: &[(u32, f64)]| -> Vec<f64> { series.iter().map(|(_, value)| *value).collect() };
    for (index, &ratio) in TRUE_RATIOS.iter().enumerate() {
        let own = runs(ratio);
        let paired = compare(&own, &baseline, number).finding;
        let unpaired = unpaired_verdict(&values(&own), &values(&baseline), number);
        let claims = |finding| u32::from(finding == Finding::Higher || finding == Finding::Lower);
        let count = &mut counts[kind][index];
        count.comparisons += 1;
        count.paired += claims(paired);
        count.unpaired += claims(unpaired);
        count.reversed += u32::from(paired == Finding::Lower);
    }
}

#[test]
fn a_thousand_campaigns_with_drift() {
    let mut counts = [[Count::default(); TRUE_RATIOS.len()]; NOISES.len()];
    for number in 0..CAMPAIGNS {
        campaign(number, &mut counts);
    }
    let mut text = String::from("claims of a difference, by pairs / by medians of each side\n");
    for (noise, row) in NOISES.iter().zip(&counts) {
        let _ = write!(text, "{:>12}", format!("{noise:?}"));
        for (count, ratio) in row.iter().zip(TRUE_RATIOS) {
            let (paired, unpaired) = (count.share(count.paired), count.share(count.unpaired));
            let _ = write!(text, "   ×{ratio}: {:5.1}% / {:5.1}%", 100.0 * paired, 100.0 * unpaired);
        }
        text.push('\n');
    }
    println!("{text}");
    let all = |index: usize| -> Count {
        counts.iter().map(|row| row[index]).fold(Count::default(), |sum, count| Count {
            comparisons: sum.comparisons + count.comparisons,
            paired: sum.paired + count.paired,
            unpaired: sum.unpaired + count.unpaired,
            reversed: sum.reversed + count.reversed,
        })
    };
    let power: Vec<String> = TRUE_RATIOS
        .iter()
        .enumerate()
        .skip(1)
        .map(|(index, ratio)| {
            let count = all(index);
            assert!(count.paired > count.unpaired, "pairing finds fewer differences of ×{ratio}\n{text}");
            assert!(count.share(count.reversed) <= 0.025, "×{ratio} claimed to be lower\n{text}");
            let (paired, unpaired) = (count.share(count.paired), count.share(count.unpaired));
            format!("×{ratio}: {:.1}% / {:.1}%", 100.0 * paired, 100.0 * unpaired)
        })
        .collect();
    let equals = all(0);
    let false_claims = equals.share(equals.paired);
    println!("all: {:.1}% false claims; power {}", 100.0 * false_claims, power.join(", "));
    assert_eq!(u64::from(equals.comparisons), CAMPAIGNS);
    assert!(false_claims <= 0.05, "{text}");
}
