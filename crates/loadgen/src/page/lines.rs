//! Plots of what was measured at several numbers of users: a line for each server.

use std::collections::BTreeMap;

use super::{Sample, escaped, number, put};
use crate::report::Measure;

/// A drawing that stands for itself: a page of HTML takes it as it is, and so does an `<img>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// Workload and what is measured of it, fit for a file: `retr-rate`, `retr-cpu`.
    pub name: String,
    /// As SVG, with its own style, in light and dark colours.
    pub svg: String,
}

/// What was measured of one workload, by server and then by users.
struct Lines<'a> {
    workload: &'a str,
    unit: &'a str,
    servers: Vec<(&'a str, BTreeMap<usize, Vec<&'a Measure>>)>,
}

/// Two plots, rate and CPU time of the server against users, for each workload that was measured
/// with more than one number of users.
pub fn plots(samples: &[Sample]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for lines in all_lines(samples) {
        let Lines { workload, unit, .. } = lines;
        let title = format!("{workload}: {unit}s a second (more is better)");
        plots.extend(lines.plot("rate", &title, |round| Some(round.rate)));
        let (scale, measure) = if unit == "GiB" { (1.0, "s") } else { (1e6, "µs") };
        let title = format!("{workload}: {measure} of server CPU a {unit} (less is better)");
        plots.extend(lines.plot("cpu", &title, |round| {
            round.server_cpu_seconds_per_unit.map(|spent| spent * scale)
        }));
    }
    plots
}

fn all_lines(samples: &[Sample]) -> Vec<Lines<'_>> {
    let mut all: Vec<Lines> = Vec::new();
    for sample in samples {
        for measure in &sample.report.rounds {
            let Some(users) = measure.users else { continue };
            let workload = sample.plot.as_ref().unwrap_or(&measure.workload);
            let at = all.iter().position(|lines| lines.workload == workload).unwrap_or(all.len());
            if at == all.len() {
                all.push(Lines { workload, unit: &measure.unit, servers: Vec::new() });
            }
            let Some(lines) = all.get_mut(at) else { continue };
            let servers = &mut lines.servers;
            let at = servers.iter().position(|(name, _)| *name == sample.server);
            let at = at.unwrap_or(servers.len());
            if at == servers.len() {
                servers.push((&sample.server, BTreeMap::new()));
            }
            let Some((_, points)) = servers.get_mut(at) else { continue };
            points.entry(users).or_default().push(measure);
        }
    }
    all.retain(|lines| lines.users().len() > 1);
    all
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 252.0;
/// From one server to the next in the legend, where few share its width.
const LEGEND_STEP: f64 = 130.0;
/// Told apart by who sees few colours too, and in black and white by their order in the legend.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// A plot has its own style, as it may stand in a page that has none for it.
const LOOKS: &str = "<style>text{font:13px system-ui,sans-serif;fill:#333}.head{font-weight:600}\
    .grid{stroke:#8885;stroke-width:1}polyline{fill:none;stroke-width:2.2}\
    @media(prefers-color-scheme:dark){text{fill:#ddd}}</style>";

impl Lines<'_> {
    fn users(&self) -> Vec<usize> {
        let mut users: Vec<usize> =
            self.servers.iter().flat_map(|(_, points)| points.keys().copied()).collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// The medians of all rounds; none where nothing was measured.
    fn plot(
        &self,
        what: &str,
        title: &str,
        value: impl Fn(&Measure) -> Option<f64>,
    ) -> Option<Plot> {
        let lines: Vec<(&str, Vec<(usize, f64)>)> = self
            .servers
            .iter()
            .map(|(server, points)| {
                let medians = points.iter().filter_map(|(users, rounds)| {
                    let values = rounds.iter().filter_map(|round| value(round)).collect();
                    Some((*users, median(values)?))
                });
                (*server, medians.collect())
            })
            .collect();
        let most = lines.iter().flat_map(|(_, line)| line).map(|(_, value)| *value);
        let most = most.fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        let axes = Axes { users: self.users(), step: step_of(most), most };
        let mut svg = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' \
             width='{WIDTH}' height='{HEIGHT}' role='img'>{LOOKS}<title>{title}</title>\
             <text x='0' y='14' class='head'>{title}</text>\n",
            title = escaped(title)
        );
        axes.draw(&mut svg);
        let apart = LEGEND_STEP.min((RIGHT - LEFT) / lines.len() as f64);
        for (at, (server, line)) in lines.iter().enumerate() {
            let colour = COLOURS.get(at % COLOURS.len()).copied().unwrap_or("#000000");
            let x = LEFT + apart * at as f64;
            let (label, square) = (x + 16.0, x);
            put(
                &mut svg,
                format_args!(
                    "<rect x='{square}' y='27' width='11' height='11' style='fill:{colour}'/>\
                     <text x='{label}' y='37'>{}</text>\n",
                    escaped(server)
                ),
            );
            axes.line(&mut svg, line, colour);
        }
        svg.push_str("</svg>\n");
        let name: String = self
            .workload
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        Some(Plot { name: format!("{name}-{what}"), svg })
    }
}

/// Users to the right, each ten times as far as the tenth of them; values upwards from nothing.
struct Axes {
    users: Vec<usize>,
    /// Between two lines of the grid.
    step: f64,
    most: f64,
}

impl Axes {
    fn x(&self, users: usize) -> f64 {
        let place = |users: usize| (users.max(1) as f64).ln();
        let least = self.users.first().map_or(0.0, |users| place(*users));
        let most = self.users.last().map_or(1.0, |users| place(*users));
        LEFT + 20.0 + (place(users) - least) / (most - least).max(1e-9) * (RIGHT - LEFT - 40.0)
    }

    fn y(&self, value: f64) -> f64 {
        let top = (self.most / self.step).ceil() * self.step;
        BOTTOM - value / top * (BOTTOM - TOP)
    }

    fn draw(&self, svg: &mut String) {
        let mut value = 0.0;
        while value < self.most + self.step {
            let y = self.y(value);
            let (end, middle) = (LEFT - 8.0, y + 4.0);
            let text = if value == 0.0 { "0".to_owned() } else { number(value) };
            put(
                svg,
                format_args!(
                    "<line class='grid' x1='{LEFT}' x2='{RIGHT}' y1='{y:.1}' y2='{y:.1}'/>\
                     <text x='{end}' y='{middle:.1}' text-anchor='end'>{text}</text>\n"
                ),
            );
            value += self.step;
        }
        let under = BOTTOM + 18.0;
        for users in &self.users {
            let x = self.x(*users);
            put(
                svg,
                format_args!("<text x='{x:.1}' y='{under}' text-anchor='middle'>{users}</text>\n"),
            );
        }
        let (x, y) = (f64::midpoint(LEFT, RIGHT), BOTTOM + 38.0);
        put(svg, format_args!("<text x='{x}' y='{y}' text-anchor='middle'>users</text>\n"));
    }

    fn line(&self, svg: &mut String, points: &[(usize, f64)], colour: &str) {
        put(svg, format_args!("<polyline style='stroke:{colour}' points='"));
        for (users, value) in points {
            put(svg, format_args!("{:.1},{:.1} ", self.x(*users), self.y(*value)));
        }
        svg.push_str("'/>\n");
        for (users, value) in points {
            let (x, y) = (self.x(*users), self.y(*value));
            put(
                svg,
                format_args!(
                    "<circle cx='{x:.1}' cy='{y:.1}' r='3.5' style='fill:{colour}'>\
                     <title>{users}: {}</title></circle>\n",
                    number(*value)
                ),
            );
        }
    }
}

/// 1, 2 or 5 of a power of ten, so that at most six of them are the whole.
fn step_of(most: f64) -> f64 {
    let ten = 10f64.powf((most / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|digit| digit * ten);
    steps.into_iter().find(|step| most / step <= 6.0).unwrap_or(10.0 * ten)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    fn point(server: &str, users: usize, rate: f64) -> Sample {
        let round = Measure { users: Some(users), ..Measure::of_rate("retr", rate) };
        let report = Report::of(vec![round]);
        Sample { server: server.to_owned(), step: None, plot: None, report }
    }

    #[test]
    fn a_line_goes_through_the_medians_of_a_server() {
        let samples = [
            point("one", 1, 10.0),
            point("one", 100, 30.0),
            point("one", 100, 20.0),
            point("one", 100, 40.0),
            point("<two>", 1, 15.0),
        ];
        let plots = plots(&samples);
        let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
        assert_eq!(names, ["retr-rate"]);
        let svg = &plots[0].svg;
        assert!(svg.contains("points='90.0,186.7 600.0,56.0 '"), "{svg}");
        assert!(svg.contains("points='90.0,154.0 '") && svg.contains("&lt;two&gt;"), "{svg}");
        assert!(svg.contains("<title>100: 30.0</title>"), "{svg}");
    }

    #[test]
    fn all_servers_find_room_in_the_legend() {
        let servers = ["one", "two", "three", "four", "five"];
        let points = servers.iter().flat_map(|server| [1, 10].map(|at| point(server, at, 9.0)));
        let samples: Vec<Sample> = points.collect();
        let svg = &plots(&samples)[0].svg;
        assert!(svg.contains("<text x='526' y='37'>five</text>"), "{svg}");
    }

    #[test]
    fn one_number_of_users_makes_no_line() {
        assert_eq!(plots(&[point("one", 100, 10.0), point("two", 100, 20.0)]), []);
    }

    #[test]
    fn the_grid_is_of_round_numbers() {
        let steps = [0.9, 3.0, 42.0, 100.0, 14_000.0].map(step_of);
        assert_eq!(steps, [0.2, 0.5, 10.0, 20.0, 5000.0]);
    }
}
