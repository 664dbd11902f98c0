//! Reports of several servers as one page of HTML that needs nothing besides itself.

mod lines;

use std::fmt::Write as _;

pub use lines::{Plot, plots};
use serde::{Deserialize, Serialize};

use crate::report::{Measure, Report};

/// A report and whose it is. A file of them has one in each line, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the server, as the page shows it; rounds of one name are one row.
    pub server: String,
    /// What was run, such as `retr, 100 users`; unset: the names of the report's workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The plot against users that this is a point of, such as `retr of 10 KB`; unset: that of the
    /// workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plot: Option<String>,
    /// What was measured.
    pub report: Report,
}

/// Reads a file of samples, or one report alone, which `name` then names.
///
/// # Errors
/// It is neither; the text says where.
pub fn read(name: &str, text: &str) -> Result<Vec<Sample>, String> {
    if let Ok(report) = serde_json::from_str::<Report>(text) {
        return Ok(vec![Sample { server: name.to_owned(), step: None, plot: None, report }]);
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|error| format!("{name}, line {}: {error}", at + 1))
        })
        .collect()
}

/// All rounds of one server in one step.
struct Row<'a> {
    server: &'a str,
    rounds: Vec<&'a Measure>,
}

impl Row<'_> {
    /// The round with the median rate.
    fn median(&self) -> Option<&Measure> {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        rounds.get(rounds.len() / 2).copied()
    }
}

struct Section<'a> {
    title: String,
    rows: Vec<Row<'a>>,
}

fn sections(samples: &[Sample]) -> Vec<Section<'_>> {
    let mut sections: Vec<Section> = Vec::new();
    for sample in samples {
        for measure in &sample.report.rounds {
            let title = sample.step.clone().unwrap_or_else(|| measure.workload.clone());
            let section = match sections.iter_mut().position(|section| section.title == title) {
                Some(at) => sections.get_mut(at),
                None => {
                    sections.push(Section { title, rows: Vec::new() });
                    sections.last_mut()
                }
            };
            let Some(section) = section else { continue };
            match section.rows.iter_mut().find(|row| row.server == sample.server) {
                Some(row) => row.rounds.push(measure),
                None => {
                    section.rows.push(Row { server: &sample.server, rounds: vec![measure] });
                }
            }
        }
    }
    sections
}

/// The page: what was measured with several numbers of users as lines, then for each step a table,
/// a plot of the rate and one of the server's CPU time.
pub fn page(title: &str, samples: &[Sample]) -> String {
    let mut out = String::from(HEAD);
    let title = escaped(title);
    put(&mut out, format_args!("<title>{title}</title>\n<h1>{title}</h1>\n<p>{LEGEND}</p>\n"));
    for plot in plots(samples) {
        out.push_str(&plot.svg);
    }
    for section in sections(samples) {
        put(&mut out, format_args!("<h2>{}</h2>\n", escaped(&section.title)));
        table(&mut out, &section.rows);
        let unit = section.rows.iter().flat_map(|row| &row.rounds).next().map(|first| &first.unit);
        let unit = unit.map_or("", String::as_str);
        plot(&mut out, &format!("{unit}/s (more is better)"), &section.rows, |round| {
            Some(round.rate)
        });
        let (scale, measure) = if unit == "GiB" { (1.0, "s") } else { (1e6, "µs") };
        let title = format!("{measure} of server CPU per {unit} (less is better)");
        plot(&mut out, &title, &section.rows, |round| {
            round.server_cpu_seconds_per_unit.map(|spent| spent * scale)
        });
    }
    groups(&mut out, samples);
    out.push_str("</html>\n");
    out
}

const LEGEND: &str = "Bars and tables show the round with the median rate; a mark is a round.";

fn table(out: &mut String, rows: &[Row<'_>]) {
    out.push_str("<table><thead><tr>");
    for head in [
        "server",
        "rounds",
        "rate/s",
        "least",
        "most",
        "MB/s",
        "p50 ms",
        "p99 ms",
        "server CPU",
        "client CPU",
        "memory KiB",
        "threads",
        "not done",
    ] {
        put(out, format_args!("<th>{head}</th>"));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        let Some(median) = row.median() else { continue };
        let rates = || row.rounds.iter().map(|round| round.rate);
        let spent = |seconds: Option<f64>| match median.unit.as_str() {
            "GiB" => cell(seconds, " s"),
            _ => cell(seconds.map(|seconds| seconds * 1e6), " µs"),
        };
        let lost: u64 = row
            .rounds
            .iter()
            .filter_map(|round| round.counts)
            .map(|counts| counts.failed + counts.hung + counts.not_tried)
            .sum();
        put(out, format_args!("<tr><th scope=row>{}</th>", escaped(row.server)));
        for text in [
            row.rounds.len().to_string(),
            number(median.rate),
            number(rates().fold(f64::INFINITY, f64::min)),
            number(rates().fold(0.0, f64::max)),
            cell(median.megabytes_per_second, ""),
            cell(median.latency_ms.map(|latency| latency.p50), ""),
            cell(median.latency_ms.map(|latency| latency.p99), ""),
            spent(median.server_cpu_seconds_per_unit),
            spent(median.client_cpu_seconds_per_unit),
            cell(median.server_bytes_per_unit.map(|bytes| bytes / 1024.0), ""),
            cell(median.server_threads_per_unit, ""),
            lost.to_string(),
        ] {
            put(out, format_args!("<td>{text}</td>"));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
}

const BAR_LEFT: f64 = 130.0;
const BAR_WIDTH: f64 = 430.0;
const BAR_STEP: f64 = 26.0;

fn plot(out: &mut String, title: &str, rows: &[Row<'_>], value: impl Fn(&Measure) -> Option<f64>) {
    let values = rows.iter().flat_map(|row| &row.rounds).filter_map(|round| value(round));
    let most = values.fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let height = BAR_STEP * rows.len() as f64 + 24.0;
    put(
        out,
        format_args!(
            "<svg viewBox='0 0 640 {height}' width=640 height={height} role=img>\
             <title>{title}</title><text x=0 y=14 class=head>{title}</text>\n",
            title = escaped(title)
        ),
    );
    for (at, row) in rows.iter().enumerate() {
        let top = 24.0 + BAR_STEP * at as f64;
        let middle = top + BAR_STEP / 2.0;
        put(out, format_args!("<text x=0 y={}>{}</text>", middle + 4.0, escaped(row.server)));
        let Some(shown) = row.median().and_then(&value) else { continue };
        let width = shown / most * BAR_WIDTH;
        put(
            out,
            format_args!(
                "<rect x={BAR_LEFT} y={} width={width:.1} height={} />",
                top + 4.0,
                BAR_STEP - 8.0
            ),
        );
        for round in row.rounds.iter().filter_map(|round| value(round)) {
            let x = BAR_LEFT + round / most * BAR_WIDTH;
            let (from, to) = (top + 2.0, top + BAR_STEP - 2.0);
            put(out, format_args!("<line x1={x:.1} x2={x:.1} y1={from} y2={to} />"));
        }
        let x = BAR_LEFT + BAR_WIDTH + 10.0;
        put(out, format_args!("<text x={x} y={}>{}</text>\n", middle + 4.0, number(shown)));
    }
    out.push_str("</svg>\n");
}

/// The tables of mixed loads, where there are any.
fn groups(out: &mut String, samples: &[Sample]) {
    for sample in samples.iter().filter(|sample| !sample.report.groups.is_empty()) {
        put(out, format_args!("<h2>Sizes: {}</h2>\n<table><thead><tr>", escaped(&sample.server)));
        for head in ["way", "MB", "count", "failed", "least s", "average s", "most s"] {
            put(out, format_args!("<th>{head}</th>"));
        }
        out.push_str("</tr></thead><tbody>\n");
        for group in &sample.report.groups {
            put(
                out,
                format_args!(
                    "<tr><th scope=row>{}</th><td>{}-{}</td><td>{}</td><td>{}</td>\
                     <td>{:.3}</td><td>{:.3}</td><td>{:.3}</td></tr>\n",
                    group.direction.as_str(),
                    group.least_megabytes,
                    group.most_megabytes,
                    group.count,
                    group.failed,
                    group.min_seconds,
                    group.average_seconds,
                    group.max_seconds
                ),
            );
        }
        out.push_str("</tbody></table>\n");
    }
}

/// Writing into a string cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn cell(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{}{unit}", number(value)))
}

/// Three or four digits that matter.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => {
            let digits = format!("{value:.0}");
            let mut text = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at) % 3 == 0 {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
    out
}

const HEAD: &str = "<!doctype html>
<html lang=en>
<meta charset=utf-8>
<meta name=viewport content='width=device-width'>
<style>
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child { text-align: left; white-space: nowrap; }
svg { display: block; margin: .5rem 0; max-width: 100%; }
svg text { fill: currentColor; font-size: 13px; }
svg .head { font-weight: 600; }
svg rect { fill: #3b82c4; }
svg line { stroke: currentColor; stroke-width: 1.5; }
</style>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(server: &str, rate: f64, spent: f64) -> Sample {
        let round =
            Measure { server_cpu_seconds_per_unit: Some(spent), ..Measure::of_rate("retr", rate) };
        Sample {
            server: server.to_owned(),
            step: Some("retr, 100 users".to_owned()),
            plot: None,
            report: Report::of(vec![round]),
        }
    }

    #[test]
    fn servers_stand_side_by_side_and_the_median_is_the_bar() {
        let samples = [
            sample("one", 1000.0, 50e-6),
            sample("<two>", 4000.0, 20e-6),
            sample("one", 3000.0, 40e-6),
            sample("one", 2000.0, 30e-6),
        ];
        let page = page("Side by side", &samples);
        assert_eq!(page.matches("<h2>retr, 100 users</h2>").count(), 1, "{page}");
        assert!(page.contains("<td>2,000</td><td>1,000</td><td>3,000</td>"), "{page}");
        assert!(page.contains("30.0 µs") && page.contains("&lt;two&gt;"), "{page}");
        assert!(page.contains("width=215.0") && page.contains("width=430.0"), "{page}");
        assert_eq!(page.matches("<svg").count(), 2);
        for outside in ["src=", "href=", "<script", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn files_are_read_line_by_line_or_whole() {
        let one = sample("one", 1000.0, 50e-6);
        let line = serde_json::to_string(&one).unwrap();
        let read_back = read("x", &format!("{line}\n\n{line}\n")).unwrap();
        assert_eq!((read_back.len(), read_back[1].server.as_str()), (2, "one"));
        let alone = serde_json::to_string_pretty(&one.report).unwrap();
        assert_eq!(read("mine", &alone).unwrap()[0].server, "mine");
        let wrong = read("x.json", &format!("{line}\n{{}}\n")).unwrap_err();
        assert!(wrong.starts_with("x.json, line 2: "), "{wrong}");
    }
}
