// SPDX-License-Identifier: Apache-2.0
// JSON paths for printer columns and the subresource scale: `.spec.a`, `.status.conditions[?(@.type=="Ready")].status`, `[0]`, `[*]`.
import { asFields, isFields, asList } from "../objects/json.ts";

type Step = (value: unknown) => readonly unknown[];

function childStep(key: string): Step {
  return (value) => {
    const fields = asFields(value);
    return Object.hasOwn(fields, key) ? [fields[key]] : [];
  };
}

function filterStep(path: string, expected: string): Step {
  const steps = parsePath(path);
  return (value) =>
    asList(value).filter((item) =>
      steps(item).some((foundValue) => String(foundValue) === expected),
    );
}

function wildcardStep(value: unknown): readonly unknown[] {
  return isFields(value) ? Object.values(value) : asList(value);
}

function indexStep(index: number): Step {
  return (value) => {
    const item = asList(value).at(index);
    return item === undefined ? [] : [item];
  };
}

const TOKEN =
  /\.((?:[\w-]|\\.)+)|\.?\[\?\(@((?:\.[\w-]+)+)\s*==\s*["']([^"']*)["']\)\]|\[(-?\d+)\]|\[\*\]|\['([^']*)'\]/y;

function toStep(match: RegExpExecArray): Step {
  const [, plainKey, filter, expected, index, quotedKey] = match;
  const key = plainKey?.replace(/\\(.)/g, "$1") ?? quotedKey;
  if (key !== undefined) {
    return childStep(key);
  }
  if (filter !== undefined) {
    return filterStep(filter, expected ?? "");
  }
  return index === undefined ? wildcardStep : indexStep(Number(index));
}

function parseSteps(path: string): Step[] {
  const steps: Step[] = [];
  // Each call needs its own RegExp, because parsing is recursive and a sticky RegExp stores its position.
  const token = new RegExp(TOKEN);
  while (token.lastIndex < path.length) {
    const match = token.exec(path);
    if (match === null) {
      return [() => []];
    }
    steps.push(toStep(match));
  }
  return steps;
}

/** Parses a path. For an invalid path, the returned function finds no values. */
export function parsePath(path: string): (value: unknown) => readonly unknown[] {
  const steps = parseSteps(path.replace(/^\$?\{?/, "").replace(/\}$/, ""));
  return (value) => {
    let values: readonly unknown[] = [value];
    for (const step of steps) {
      values = values.flatMap(step);
    }
    return values;
  };
}
