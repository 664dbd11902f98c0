//! Why a rule that watches a folder did not start on a file there, as far as its node has noted it.

use entrepot_db::{EventFilter, WatchedFile};
use entrepot_nouns::explanation::{Remark, RemarkReason};
use entrepot_nouns::watch::Watch;
use entrepot_nouns::{Fact, Rule, SiteId, Stored, Timestamp, VPath};

use crate::admin::Admin;
use crate::error::Result;
use crate::limits;

/// A rule that watches the folder in which a file is asked about.
struct Watching<'r> {
    rule: &'r Rule,
    watch: &'r Watch,
    /// The file, below the folder.
    below: String,
}

impl Admin {
    /// What the rules that watch a folder with this path in it know of it.
    pub(crate) async fn where_watched(
        &self,
        site: SiteId,
        path: &VPath,
        rules: &[Stored<Rule>],
    ) -> Result<Vec<Remark>> {
        let mut remarks = Vec::new();
        for rule in rules {
            let Some(watch) = rule.noun.when.watch() else { continue };
            let Some(below) = path.below(&watch.path) else { continue };
            let watching = Watching { rule: &rule.noun, watch, below: below.as_str().to_owned() };
            let remark = match watch.files().why_not(&watching.below) {
                Some(why) => watching.leaves(&why),
                None => match self.parts().db.watched_file(rule.id, &watching.below).await? {
                    Some(file) => watching.found(&file),
                    None => match self.fails_since(site, &rule.noun).await? {
                        Some((at, error)) => watching.fails(at, &error),
                        None => watching.waits(),
                    },
                },
            };
            remarks.push(remark);
        }
        Ok(remarks)
    }

    /// Since when the folder of a rule cannot be listed, and why.
    async fn fails_since(&self, site: SiteId, rule: &Rule) -> Result<Option<(Timestamp, String)>> {
        let kinds = ["watch.failed", "watch.recovered"].map(str::to_owned).to_vec();
        let mut filter = EventFilter { kinds, newest_first: true, ..EventFilter::default() };
        for _ in 0..limits::EXPLAIN_PAGES {
            let page = self.parts().db.event_page(site, &filter).await?;
            for row in page.rows {
                match row.event.fact {
                    Fact::WatchFailed { folder, error } if folder.rule == rule.name => {
                        return Ok(Some((row.event.at, error)));
                    }
                    Fact::WatchRecovered { folder } if folder.rule == rule.name => return Ok(None),
                    _ => {}
                }
            }
            filter.before_sequence = page.next;
            if page.next.is_none() {
                break;
            }
        }
        Ok(None)
    }
}

impl Watching<'_> {
    fn folder(&self) -> String {
        format!("'{}' of the endpoint '{}'", self.watch.path, self.watch.endpoint)
    }

    fn leaves(&self, why: &str) -> Remark {
        let (rule, folder) = (&self.rule.name, self.folder());
        let text = format!("the rule '{rule}', which watches {folder}, leaves it alone: {why}");
        Remark { reason: RemarkReason::LeftAlone, text }
    }

    fn found(&self, file: &WatchedFile) -> Remark {
        let (rule, folder, below) = (&self.rule.name, self.folder(), &self.below);
        let version = match file.size {
            Some(size) => format!("with {size} bytes, changed at {}", file.modified),
            None => "and finds it anew at its next look".to_owned(),
        };
        let gone = match file.gone_at {
            Some(at) => format!("; it is not listed any more since {at}"),
            None => String::new(),
        };
        let text = format!(
            "the rule '{rule}', which watches {folder}, has found it before, {version}{gone}; it \
             starts once for each version of a file: 'entrepot watch forget {rule} {below}' has \
             it found anew"
        );
        Remark { reason: RemarkReason::SeenBefore, text }
    }

    fn fails(&self, at: Timestamp, error: &str) -> Remark {
        let (rule, folder) = (&self.rule.name, self.folder());
        let text = format!(
            "the rule '{rule}' watches {folder}, which cannot be listed since {at}: {error}"
        );
        Remark { reason: RemarkReason::NotListed, text }
    }

    fn waits(&self) -> Remark {
        let (rule, folder, watch) = (&self.rule.name, self.folder(), self.watch);
        let mut text = format!("the rule '{rule}', which watches {folder}, has not found it: ");
        if !self.rule.enabled {
            text += "it is disabled";
            return Remark { reason: RemarkReason::NotFoundYet, text };
        }
        text += &format!(
            "it looks every {}, and takes a file that had the same size and time at two looks {} \
             apart",
            watch.every, watch.stable
        );
        if let Some(done) = &watch.done_file {
            let name = self.below.rsplit('/').next().unwrap_or_default();
            text += &format!(", with '{}' beside it", done.of(name));
        }
        if let Some(age) = watch.max_age {
            text += &format!(", and was changed at most {age} ago");
        }
        Remark { reason: RemarkReason::NotFoundYet, text }
    }
}
