//! The results of calls, as MCP has them.

use innkeeper_host::agent::{ToolContent, ToolResult};
use serde_json::{Value, json};

/// Returns the result of a tool as the result of `tools/call`, with context that hooks added.
pub(super) fn of(result: ToolResult, context: Vec<String>) -> Value {
    let mut content: Vec<Value> = result.content.into_iter().filter_map(block).collect();
    // Many tools report a failure in their content, and the error repeats it.
    let error = result
        .error
        .filter(|error| !content.iter().any(|block| block["text"] == **error));
    content.extend(error.map(|error| text(&error)));
    if content.is_empty() {
        let words = result
            .structured
            .as_ref()
            .map_or(result.summary, |fields| json!(fields).to_string());
        content.push(text(&words));
    }
    content.extend(context.iter().map(|context| text(context)));
    let mut answer = json!({ "content": content, "isError": !result.success });
    if let Some(structured) = result.structured {
        answer["structuredContent"] = Value::Object(structured);
    }
    answer
}

/// Returns the result of a call that failed.
pub(super) fn failed(problem: &str) -> Value {
    json!({ "content": [text(problem)], "isError": true })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn block(content: ToolContent) -> Option<Value> {
    match content {
        ToolContent::Text(words) => Some(text(&words)),
        ToolContent::Embedded { data, content_type } => Some(match content_type.split('/').next() {
            Some(kind @ ("image" | "audio")) => json!({ "type": kind, "data": data, "mimeType": content_type }),
            _ => {
                let resource = json!({ "uri": "innkeeper:///result", "blob": data, "mimeType": content_type });
                json!({ "type": "resource", "resource": resource })
            }
        }),
        // The agent cannot open what the host stores for users, but it can be told what that is.
        ToolContent::Resource { mention, .. } => mention.map(|mention| text(&mention)),
        ToolContent::FileEdit(_) | ToolContent::Terminal { .. } | ToolContent::Subagent { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_every_kind_reach_the_agent() {
        let rang = of(ToolResult::text("Rang", "ding"), vec!["a hook said so".to_owned()]);
        assert_eq!(rang["content"], json!([text("ding"), text("a hook said so")]));
        assert_eq!(rang["isError"], false);
        let refused = of(ToolResult::failed("No", "the user refused"), Vec::new());
        assert_eq!(
            (&refused["isError"], &refused["content"][0]["text"]),
            (&json!(true), &json!("the user refused"))
        );
        let drawn = ToolResult {
            success: true,
            content: vec![ToolContent::Embedded {
                data: "AAEC".to_owned(),
                content_type: "image/png".to_owned(),
            }],
            structured: json!({ "width": 1 }).as_object().cloned(),
            ..ToolResult::default()
        };
        let drawn = of(drawn, Vec::new());
        assert_eq!(
            drawn["content"][0],
            json!({ "type": "image", "data": "AAEC", "mimeType": "image/png" })
        );
        assert_eq!(drawn["structuredContent"], json!({ "width": 1 }));
    }
}
