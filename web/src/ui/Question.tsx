// Questions of an agent: a form with one field per question, checked before it is sent.

import { For, Match, Show, Switch, createMemo } from "solid-js";
import type { JSX } from "solid-js";
import { createStore } from "solid-js/store";
import type {
  ChatInputAnswer,
  ChatInputCompletedAction,
  ChatInputQuestion,
  ChatInputRequest,
  InputRequestResponsePart,
} from "../ahp/types.gen";
import { answerOf, initialValue, problemOf } from "./answers";
import type { FieldValue } from "./answers";
import { Markdown } from "./Markdown";
import { Icon } from "./icons";

export function QuestionForm(props: {
  request: ChatInputRequest;
  canWrite: boolean;
  answer(action: ChatInputCompletedAction): void;
}): JSX.Element {
  const questions = createMemo(() => props.request.questions ?? []);
  const [values, setValues] = createStore<Record<string, FieldValue>>(
    Object.fromEntries(questions().map((question) => [question.id, initialValue(question, props.request.answers)])),
  );
  const [touched, setTouched] = createStore<Record<string, boolean>>({});
  const problem = (question: ChatInputQuestion) => problemOf(question, values[question.id] ?? {});
  const isValid = () => questions().every((question) => problem(question) === undefined);

  const complete = (response: "accept" | "decline") => {
    const answers: Record<string, ChatInputAnswer> = {};
    for (const question of response === "accept" ? questions() : []) {
      answers[question.id] = answerOf(question, values[question.id] ?? {});
    }
    props.answer({
      type: "chat/inputCompleted",
      requestId: props.request.id,
      response,
      ...(response === "accept" && questions().length > 0 && { answers }),
    });
  };

  return (
    <section class="card waits" aria-label="Question">
      <Show when={props.request.message}>{(message) => <Markdown text={message()} />}</Show>
      <Show when={props.request.url}>
        {(url) => (
          <p>
            <a class="button primary" href={safeUrl(url())} target="_blank" rel="noopener noreferrer">
              Open {hostOf(url())}
            </a>
          </p>
        )}
      </Show>
      <form
        novalidate
        onSubmit={(event) => {
          event.preventDefault();
          for (const question of questions()) setTouched(question.id, true);
          if (isValid()) complete("accept");
          else event.currentTarget.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
        }}
      >
        <For each={questions()}>
          {(question) => (
            <Field
              question={question}
              value={values[question.id] ?? {}}
              problem={touched[question.id] ? problem(question) : undefined}
              change={(value) => {
                setValues(question.id, value);
                setTouched(question.id, true);
              }}
              disabled={!props.canWrite}
            />
          )}
        </For>
        <Show when={props.canWrite}>
          <div class="buttons">
            <button type="button" class="button" onClick={() => complete("decline")}>
              Decline
            </button>
            <button class="button primary">{questions().length > 0 ? "Send answers" : "Done"}</button>
          </div>
        </Show>
      </form>
    </section>
  );
}

function Field(props: {
  question: ChatInputQuestion;
  value: FieldValue;
  problem: string | undefined;
  disabled: boolean;
  change(value: Partial<FieldValue>): void;
}): JSX.Element {
  const of = <K extends ChatInputQuestion["kind"]>(...kinds: K[]) =>
    (kinds as string[]).includes(props.question.kind)
      ? (props.question as Extract<ChatInputQuestion, { kind: K }>)
      : undefined;
  const id = () => `q-${props.question.id}`;
  const described = () => (props.problem ? `${id()}-problem` : undefined);
  const marks = () => ({
    "aria-invalid": props.problem ? ("true" as const) : undefined,
    "aria-describedby": described(),
    disabled: props.disabled,
  });
  return (
    <fieldset class="question">
      <legend>
        {props.question.title || props.question.message}
        <Show when={props.question.required}>
          <span class="required"> (required)</span>
        </Show>
      </legend>
      <Show when={props.question.title && props.question.message !== props.question.title}>
        <p class="muted">{props.question.message}</p>
      </Show>
      <Switch>
        <Match when={of("text")}>
          {(question) => (
            <input
              type={{ email: "email", date: "date", "date-time": "datetime-local" }[question().format ?? ""] ?? "text"}
              aria-label={question().title ?? question().message}
              value={props.value.text ?? ""}
              onInput={(event) => props.change({ text: event.currentTarget.value })}
              {...marks()}
            />
          )}
        </Match>
        <Match when={of("number", "integer")}>
          {(question) => (
            <input
              inputmode={question().kind === "integer" ? "numeric" : "decimal"}
              aria-label={question().title ?? question().message}
              value={props.value.text ?? ""}
              onInput={(event) => props.change({ text: event.currentTarget.value })}
              {...marks()}
            />
          )}
        </Match>
        <Match when={of("boolean")}>
          <div class="choices">
            <For each={[true, false]}>
              {(choice) => (
                <label class="choice">
                  <input
                    type="radio"
                    name={id()}
                    checked={props.value.flag === choice}
                    onChange={() => props.change({ flag: choice })}
                    {...marks()}
                  />
                  <span>{choice ? "Yes" : "No"}</span>
                </label>
              )}
            </For>
          </div>
        </Match>
        <Match when={of("single-select", "multi-select")}>
          {(question) => (
            <div class="choices">
              <For each={question().options}>
                {(option) => (
                  <label class="choice">
                    <input
                      type={question().kind === "single-select" ? "radio" : "checkbox"}
                      name={id()}
                      checked={props.value.selected?.includes(option.id) ?? false}
                      onChange={(event) => {
                        const before = props.value.selected ?? [];
                        const others = before.filter((other) => other !== option.id);
                        const next = event.currentTarget.checked ? [...others, option.id] : others;
                        props.change({ selected: question().kind === "single-select" ? [option.id] : next });
                      }}
                      {...marks()}
                    />
                    <span>
                      <strong>{option.label}</strong>
                      <Show when={option.recommended}>
                        <em> recommended</em>
                      </Show>
                      <Show when={option.description}>
                        <small>{option.description}</small>
                      </Show>
                    </span>
                  </label>
                )}
              </For>
              <Show when={question().allowFreeformInput}>
                <input
                  aria-label="Another answer"
                  placeholder="Another answer"
                  value={props.value.text ?? ""}
                  onInput={(event) => props.change({ text: event.currentTarget.value })}
                  disabled={props.disabled}
                />
              </Show>
            </div>
          )}
        </Match>
      </Switch>
      <Show when={props.problem}>
        {(text) => (
          <p class="error" id={`${id()}-problem`}>
            {text()}
          </p>
        )}
      </Show>
    </fieldset>
  );
}

export function AnsweredQuestion(props: { part: InputRequestResponsePart }): JSX.Element {
  const words = { accept: "Answered", decline: "Declined", cancel: "Not answered" };
  const shown = (answer: ChatInputAnswer | undefined) => {
    if (!answer || answer.state === "skipped") return "—";
    const { value } = answer;
    return Array.isArray(value.value) ? value.value.join(", ") : String(value.value);
  };
  return (
    <details class="tool">
      <summary>
        <Icon name="inbox" /> {words[props.part.response ?? "cancel"]}: {props.part.request.message ?? "a question"}
      </summary>
      <dl class="answers">
        <For each={props.part.request.questions ?? []}>
          {(question) => (
            <>
              <dt>{question.title ?? question.message}</dt>
              <dd>{shown(props.part.request.answers?.[question.id])}</dd>
            </>
          )}
        </For>
      </dl>
    </details>
  );
}

function safeUrl(url: string): string | undefined {
  return /^https?:\/\//i.test(url) ? url : undefined;
}

function hostOf(url: string): string {
  try {
    return new URL(url).host || "the page";
  } catch {
    return "the page";
  }
}
