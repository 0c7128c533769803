// Annotations on changed files: threads of entries.

import type { Annotation, AnnotationsState, StateAction } from "../types.gen";
import { removeAt, replaceAt, upsert } from "./lists";

export function reduceAnnotations(state: AnnotationsState, action: StateAction): AnnotationsState {
  switch (action.type) {
    case "annotations/set": {
      const { annotation } = action;
      return { ...state, annotations: upsert(state.annotations, annotation, (other) => other.id === annotation.id) };
    }
    case "annotations/updated": {
      const { origin, resource, range, resolved } = action;
      return change(state, action.annotationId, (annotation) => ({
        ...annotation,
        ...(origin != null && { origin }),
        ...(resource != null && { resource }),
        ...(range != null && { range }),
        ...(resolved != null && { resolved }),
      }));
    }
    case "annotations/removed": {
      const index = state.annotations.findIndex((annotation) => annotation.id === action.annotationId);
      return index < 0 ? state : { ...state, annotations: removeAt(state.annotations, index) };
    }
    case "annotations/entrySet":
      return change(state, action.annotationId, (annotation) => ({
        ...annotation,
        entries: upsert(annotation.entries, action.entry, (entry) => entry.id === action.entry.id),
      }));
    case "annotations/entryRemoved":
      return change(state, action.annotationId, (annotation) => {
        const index = annotation.entries.findIndex((entry) => entry.id === action.entryId);
        return index < 0 ? annotation : { ...annotation, entries: removeAt(annotation.entries, index) };
      });
    default:
      return state;
  }
}

function change(state: AnnotationsState, id: string, update: (annotation: Annotation) => Annotation): AnnotationsState {
  const index = state.annotations.findIndex((annotation) => annotation.id === id);
  const annotation = state.annotations[index];
  if (!annotation) return state;
  const next = update(annotation);
  return next === annotation ? state : { ...state, annotations: replaceAt(state.annotations, index, next) };
}
