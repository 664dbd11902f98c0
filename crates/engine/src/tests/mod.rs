//! The engine as a whole: promises P8 and P9 on simulated clocks and disks.

mod again;
mod approvals;
mod calls;
mod change;
mod crashes;
mod dry_run;
mod expects;
mod flow;
mod held;
mod jobs;
mod lanes;
mod made;
mod nodes;
mod outage;
mod programs;
mod projection;
mod retention;
mod schedules;
mod session_files;
mod stops;
mod talk;
mod thresholds;
mod turns;
mod versions;
mod watches;
mod world;
