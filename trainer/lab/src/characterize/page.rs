//! The page of a breakdown: one HTML file that needs no other one.

use std::fmt::Write;

use super::answer::{Answer, Step};
use super::breakdown::{Breakdown, Mode};

const PAGE: &str = include_str!("page.html");

/// Size of the figure of time and energy.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;

/// Space for the axes.
const MARGIN: f64 = 56.0;

/// The text of the page.
pub fn page(breakdown: &Breakdown) -> String {
    let answers: String = breakdown.answers.iter().map(section).collect();
    PAGE.replace("{KIND}", &escaped(&breakdown.kind))
        .replace("{WORKLOAD}", &escaped(&breakdown.workload))
        .replace("{DEVICE}", &escaped(&breakdown.device))
        .replace("{STEPS}", &breakdown.steps.to_string())
        .replace("{ANSWERS}", &answers)
        .replace("{ENERGY}", &energy(breakdown))
        .replace("{UNANSWERED}", &unanswered(breakdown))
}

/// Names come from files, so they are no markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A table with a bar of shares in each row.
fn section(answer: &Answer) -> String {
    let longest = answer.steps.iter().map(length).fold(0.0, f64::max);
    let mut rows = String::new();
    for step in &answer.steps {
        let width = 100.0 * length(step) / longest;
        let part = |class: &str, share: Option<f64>| {
            let share = share.unwrap_or(0.0);
            format!("<i class=\"{class}\" style=\"width:{share:.2}%\"></i>")
        };
        let parts = match step.fetch_pct {
            Some(_) => {
                part("fetch", step.fetch_pct)
                    + &part("rest", step.rest_pct)
                    + &part("compute", step.compute_pct)
            }
            None => part("all", Some(100.0)),
        };
        let number = |value: Option<f64>, digits: usize| match value {
            Some(value) => format!("{value:.digits$}"),
            None => "–".to_owned(),
        };
        let _ = write!(
            rows,
            "<tr><th>{}</th><td class=\"bar\"><span style=\"width:{width:.2}%\">{parts}</span></td>\
             <td>{:.2}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&step.value),
            step.time_ms,
            number(step.item_ms, 3),
            number(step.fetch_pct, 1),
            number(step.power_w, 2),
            number(step.energy_j, 3),
        );
    }
    format!(
        "<section><h2>{}</h2><p>{}</p><figure><table><thead><tr><th></th><th></th><th>step, ms</th>\
         <th>sample, ms</th><th>waits, %</th><th>W</th><th>step, J</th></tr></thead><tbody>{rows}</tbody></table>\
         <figcaption>{}</figcaption></figure></section>",
        escaped(answer.question),
        escaped(&answer.change),
        escaped(&answer.setting)
    )
}

/// The length of a bar: the time of a sample if the sizes differ.
fn length(step: &Step) -> f64 {
    step.item_ms.unwrap_or(step.time_ms)
}

fn energy(breakdown: &Breakdown) -> String {
    let mut text = String::new();
    if let Some(idle) = &breakdown.idle {
        let _ = write!(
            text,
            "<p>An idle board draws {:.2} W, which is {:.0} to {:.0} % of the power in the highest mode.</p>",
            idle.idle_w, idle.least_pct, idle.most_pct
        );
    }
    if let Some(variation) = &breakdown.variation {
        let _ = write!(
            text,
            "<p>Between the corpora times differ by {:.1} %{} (median of {} settings).</p>",
            variation.time_pct,
            variation
                .energy_pct
                .map_or(String::new(), |pct| format!(", energies by {pct:.1} %")),
            variation.settings
        );
    }
    if breakdown.modes.len() > 1 {
        text += &figure(&breakdown.modes);
    }
    text
}

/// Energy over time of all modes, with the Pareto front.
fn figure(modes: &[Mode]) -> String {
    let range = |figure: fn(&Mode) -> f64| {
        let values = modes.iter().map(figure);
        let least = values.clone().fold(f64::MAX, f64::min);
        let most = values.fold(0.0, f64::max);
        let edge = 0.05 * (most - least).max(1e-9);
        (least - edge, most + edge)
    };
    let (times, energies) = (range(|mode| mode.time_ms), range(|mode| mode.energy_j));
    let x = |time: f64| MARGIN + (WIDTH - 1.5 * MARGIN) * (time - times.0) / (times.1 - times.0);
    let y = |energy: f64| {
        let part = (energy - energies.0) / (energies.1 - energies.0);
        HEIGHT - MARGIN - (HEIGHT - 1.5 * MARGIN) * part
    };
    let mut svg = String::new();
    for step in 0..=4 {
        let part = f64::from(step) / 4.0;
        let [time, energy] = [times, energies].map(|(least, most)| least + part * (most - least));
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"/>\
             <text x=\"{0:.1}\" y=\"{3:.1}\" text-anchor=\"middle\">{time:.0}</text>\
             <line class=\"grid\" x1=\"{4:.1}\" x2=\"{5:.1}\" y1=\"{6:.1}\" y2=\"{6:.1}\"/>\
             <text x=\"{7:.1}\" y=\"{8:.1}\" text-anchor=\"end\">{energy:.2}</text>",
            x(time),
            y(energies.0),
            y(energies.1),
            HEIGHT - MARGIN + 18.0,
            x(times.0),
            x(times.1),
            y(energy),
            MARGIN - 6.0,
            y(energy) + 4.0,
        );
    }
    for mode in modes {
        let class = if mode.is_on_front { "front" } else { "mode" };
        let [cores, cpu, gpu, emc] = mode.knobs;
        let mhz = [cpu, gpu, emc].map(|khz| f64::from(khz) / 1e3);
        let _ = write!(
            svg,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{cores} cores, CPU {:.0}, GPU \
             {:.0}, EMC {:.0} MHz: {:.1} ms, {:.2} J</title></circle>",
            x(mode.time_ms),
            y(mode.energy_j),
            mhz[0],
            mhz[1],
            mhz[2],
            mode.time_ms,
            mode.energy_j
        );
    }
    format!(
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Energy of a step over its time\">\
         {svg}<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">time of a step, ms</text>\
         <text x=\"12\" y=\"20\">energy of a step, J</text></svg>\
         <figcaption>Each dot is a mode; on the Pareto front (filled) no mode is faster with less energy.\
         </figcaption></figure>",
        WIDTH / 2.0,
        HEIGHT - 12.0
    )
}

fn unanswered(breakdown: &Breakdown) -> String {
    let items: String = breakdown
        .unanswered
        .iter()
        .map(|unanswered| {
            let (question, needs) = (escaped(unanswered.question), escaped(&unanswered.needs));
            format!("<li><b>{question}</b> needs {needs}</li>")
        })
        .collect();
    match items.is_empty() {
        true => "<p>Nothing: the corpora answer all questions.</p>".to_owned(),
        false => format!("<ul>{items}</ul>"),
    }
}
