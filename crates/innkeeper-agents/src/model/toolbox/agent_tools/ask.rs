//! `ask_user`: asks the user a question.

use innkeeper_host::agent::{
    Answer, AnswerValue, Choice, Form, Invocation, Question, QuestionKind, Response, ToolDraft, ToolResult,
};
use innkeeper_host::{AgentError, EventSink};
use serde_json::Value;

use super::text;
use crate::tools::ToolAnswer;

/// Asks the user and returns the answer to the model.
pub(in crate::model) async fn ask(
    draft: ToolDraft,
    input: Value,
    events: &EventSink,
) -> Result<ToolAnswer, AgentError> {
    let form = match form(&input) {
        Ok(form) => form,
        Err(problem) => {
            let result = ToolResult::failed("Could not ask", problem.clone());
            draft.complete(result).await?;
            return Ok(ToolAnswer::failed(problem));
        }
    };
    let call = draft
        .run(Invocation::new("Asks a question").input(input.to_string()))
        .await?;
    let answer = events.ask(form).await?;
    let text_answer = in_words(&answer);
    let summary = match answer.response {
        Response::Accept => "Asked, and got an answer",
        Response::Decline | Response::Cancel => "Asked, and got no answer",
    };
    call.complete(ToolResult::text(summary, text_answer.clone())).await?;
    Ok(ToolAnswer::ok(text_answer))
}

fn form(input: &Value) -> Result<Form, String> {
    let question = text(input, "question")?;
    let options: Vec<&str> = match input.get("options") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(options)) => options.iter().filter_map(Value::as_str).collect(),
        Some(_) => return Err("`options` is not a list of strings".to_owned()),
    };
    let choices: Vec<Choice> = options.iter().map(|option| Choice::new(*option, *option)).collect();
    let several = input.get("multiple").and_then(Value::as_bool).unwrap_or_default();
    let kind = match (choices.is_empty(), several) {
        (true, _) => return Ok(Form::new(question).text("answer", question).required()),
        (false, false) => QuestionKind::One {
            options: choices,
            freeform: true,
        },
        (false, true) => QuestionKind::Many {
            options: choices,
            freeform: true,
            min: None,
            max: None,
        },
    };
    Ok(Form::new(question).with(Question {
        id: "answer".to_owned(),
        title: None,
        message: question.to_owned(),
        required: true,
        kind,
    }))
}

fn in_words(answer: &Answer) -> String {
    match answer.response {
        Response::Decline => return "The user does not want to answer. Go on without it if you can.".to_owned(),
        Response::Cancel => return "The user closed the question without an answer.".to_owned(),
        Response::Accept => {}
    }
    let text_answer: Vec<String> = answer
        .values
        .values()
        .map(|value| match value {
            AnswerValue::Text(text) => text.clone(),
            AnswerValue::Number(number) => number.to_string(),
            AnswerValue::Boolean(yes) => yes.to_string(),
            AnswerValue::Selected { ids, freeform } => {
                let all: Vec<&str> = ids.iter().chain(freeform).map(String::as_str).collect();
                all.join(", ")
            }
        })
        .collect();
    match text_answer.join("\n") {
        nothing if nothing.is_empty() => "The user sent the question back without an answer.".to_owned(),
        text_answer => format!("The user answered: {text_answer}"),
    }
}
