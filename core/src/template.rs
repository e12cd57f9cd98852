//! Template variables in commands and arguments: `{{ .outputPrefix }}`, `{{$input}}`, `{{.inputs.name}}`.
//!
//! Names are read in any case and with spaces around them; an input's own name is taken as it is. What is not a
//! variable that we know stays untouched, since it may be meant for somebody else.

use std::collections::BTreeMap;

/// What `{{.prevCheckpointPrefix}}` becomes when there is no earlier attempt: two quote characters, which clients take
/// for "none" (an empty argument would shift the others).
pub const NOTHING: &str = "\"\"";

/// The longest text that a substitution may make of one argument, in bytes.
pub const RESULT_MAX_BYTES: usize = 1024 * 1024;

/// The values of an attempt's variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// `input`: the URI of `inputs.pb`.
    pub input: String,
    /// `inputPrefix`: the URI of the directory that `inputs.pb` lies in.
    pub input_prefix: String,
    /// `outputPrefix`: where `outputs.pb` and `error.pb` go.
    pub output_prefix: String,
    /// `rawOutputDataPrefix`: where large outputs go.
    pub raw_output_data_prefix: String,
    /// `checkpointOutputPrefix`: where this attempt leaves its checkpoints.
    pub checkpoint_output_prefix: String,
    /// `prevCheckpointPrefix`: where the attempt before left its checkpoints; `None` for the first.
    pub prev_checkpoint_prefix: Option<String>,
    /// `runName`.
    pub run_name: String,
    /// `actionName`.
    pub action_name: String,
    /// `runStartTime`, RFC 3339.
    pub run_start_time: String,
    /// `perRetryUniqueKey`: a word that no other attempt has.
    pub per_retry_unique_key: String,
    /// `namespace`: the Kubernetes namespace of the Pod.
    pub namespace: String,
    /// `taskTemplatePath`.
    pub task_template_path: String,
    /// `inputs.NAME`, rendered as text.
    pub inputs: BTreeMap<String, String>,
}

impl Values {
    fn get(&self, name: &str) -> Option<&str> {
        if let Some(input) =
            name.get(..7).filter(|head| head.eq_ignore_ascii_case("inputs.")).map(|_| &name[7..])
        {
            return self.inputs.get(input).map(String::as_str);
        }
        Some(match name.to_ascii_lowercase().as_str() {
            "input" => &self.input,
            "inputprefix" => &self.input_prefix,
            "outputprefix" => &self.output_prefix,
            "rawoutputdataprefix" => &self.raw_output_data_prefix,
            "checkpointoutputprefix" => &self.checkpoint_output_prefix,
            "prevcheckpointprefix" => self.prev_checkpoint_prefix.as_deref().unwrap_or(NOTHING),
            "runname" => &self.run_name,
            "actionname" => &self.action_name,
            "runstarttime" => &self.run_start_time,
            "perretryuniquekey" => &self.per_retry_unique_key,
            "namespace" => &self.namespace,
            "tasktemplatepath" => &self.task_template_path,
            _ => return None,
        })
    }
}

/// Replaces every variable that is known. What was put in is not looked at again. `None` when the result would be longer
/// than [`RESULT_MAX_BYTES`]: a command that was cut off must not run.
pub fn substitute(template: &str, values: &Values) -> Option<String> {
    let mut result = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("{{") {
        result.push_str(&rest[..start]);
        match variable(&rest[start..]).and_then(|(name, len)| values.get(name).map(|value| (value, len))) {
            Some((value, _)) if result.len() + value.len() > RESULT_MAX_BYTES => return None,
            Some((value, len)) => {
                result.push_str(value);
                rest = &rest[start + len..];
            }
            None => {
                // One brace only: `{{{.input}}}` holds a variable in braces of its own.
                result.push('{');
                rest = &rest[start + 1..];
            }
        }
    }
    result.push_str(rest);
    (result.len() <= RESULT_MAX_BYTES).then_some(result)
}

/// Whether a text uses `inputs.NAME`, so that the inputs have to be read before it can be substituted.
pub fn uses_inputs(template: &str) -> bool {
    template.match_indices("{{").any(|(start, _)| {
        variable(&template[start..])
            .is_some_and(|(name, _)| name.get(..7).is_some_and(|head| head.eq_ignore_ascii_case("inputs.")))
    })
}

/// The name of the variable that `text` begins with, and how many bytes it takes with its braces.
fn variable(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("{{")?;
    let name_at = inner.trim_start_matches([' ', '\t']);
    let name_and_rest = name_at.strip_prefix(['.', '$'])?;
    let end =
        name_and_rest.find(|c: char| c.is_whitespace() || c == '}' || c == '{').filter(|end| *end > 0)?;
    let (name, after) = name_and_rest.split_at(end);
    let after = after.trim_start_matches([' ', '\t']).strip_prefix("}}")?;
    Some((name, text.len() - after.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values() -> Values {
        Values {
            input: "file:///s/r/a0/inputs.pb".into(),
            input_prefix: "file:///s/r/a0".into(),
            output_prefix: "file:///s/r/a0/2".into(),
            raw_output_data_prefix: "file:///s/r/a0/2/raw".into(),
            checkpoint_output_prefix: "file:///s/r/a0/2/_flytecheckpoints".into(),
            prev_checkpoint_prefix: Some("file:///s/r/a0/1/_flytecheckpoints".into()),
            run_name: "r".into(),
            action_name: "a0".into(),
            run_start_time: "2026-03-01T12:00:00.000Z".into(),
            per_retry_unique_key: "r-a0-2".into(),
            namespace: "flyte".into(),
            task_template_path: "inline://taskTemplate".into(),
            inputs: BTreeMap::from([("name".into(), "{{.input}}".into()), ("Größe".into(), "7".into())]),
        }
    }

    #[test]
    fn every_variable_is_replaced_in_any_spelling_and_others_stay() {
        for (template, result) in [
            ("{{.input}}", "file:///s/r/a0/inputs.pb"),
            ("{{ $Input }}", "file:///s/r/a0/inputs.pb"),
            ("{{.inputPrefix}}", "file:///s/r/a0"),
            ("{{.OUTPUTPREFIX}}/x", "file:///s/r/a0/2/x"),
            ("{{.rawOutputDataPrefix}}", "file:///s/r/a0/2/raw"),
            ("{{.checkpointOutputPrefix}}", "file:///s/r/a0/2/_flytecheckpoints"),
            ("{{.prevCheckpointPrefix}}", "file:///s/r/a0/1/_flytecheckpoints"),
            ("{{.runName}}-{{ .actionName}}", "r-a0"),
            ("{{.runStartTime}}", "2026-03-01T12:00:00.000Z"),
            ("{{.perRetryUniqueKey}}", "r-a0-2"),
            ("{{.namespace}}", "flyte"),
            ("{{.taskTemplatePath}}", "inline://taskTemplate"),
            ("say {{.inputs.name}}", "say {{.input}}"),
            ("{{ .Inputs.Größe }}", "7"),
            ("{{.inputs.größe}}", "{{.inputs.größe}}"),
            ("{{.inputs.}}", "{{.inputs.}}"),
            ("{{{.runName}}}", "{r}"),
            ("{{{{.runName}}", "{{r"),
            ("{{.unknown}} {{input}} {{.}} {{ }} {{", "{{.unknown}} {{input}} {{.}} {{ }} {{"),
            ("{{.input", "{{.input"),
            ("{{.input} }", "{{.input} }"),
            ("", ""),
        ] {
            assert_eq!(substitute(template, &values()).as_deref(), Some(result), "{template}");
        }
    }

    #[test]
    fn the_first_attempt_has_two_quotes_for_its_earlier_checkpoint() {
        let first = Values { prev_checkpoint_prefix: None, ..values() };
        assert_eq!(substitute("{{.prevCheckpointPrefix}}", &first).as_deref(), Some("\"\""));
    }

    #[test]
    fn a_result_that_is_too_long_is_none_and_never_cut_off() {
        let long = "x".repeat(RESULT_MAX_BYTES / 2 + 1);
        let values = Values { input: long.clone(), ..values() };
        assert_eq!(substitute("{{.input}}", &values).as_deref(), Some(long.as_str()));
        assert_eq!(substitute("{{.input}}{{.input}}", &values), None);
        assert_eq!(substitute(&"y".repeat(RESULT_MAX_BYTES + 1), &values), None);
    }

    #[test]
    fn a_text_that_uses_inputs_is_recognised() {
        assert!(uses_inputs("a {{ .INPUTS.x }}"));
        assert!(!uses_inputs("{{.input}} {{.inputPrefix}} inputs.x {{inputs.x}}"));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_and_text_without_braces_stays(text in any::<String>()) {
            let result = substitute(&text, &values());
            if !text.contains("{{") {
                prop_assert_eq!(result, Some(text));
            }
        }
    }
}
