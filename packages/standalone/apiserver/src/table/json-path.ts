// SPDX-License-Identifier: Apache-2.0
// JSON paths of printer columns and scale: `.spec.a`, `.status.conditions[?(@.type=="Ready")].status`, `[0]`, `[*]`.
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
    asList(value).filter((item) => steps(item).some((found) => String(found) === expected));
}

function wildcardStep(value: unknown): readonly unknown[] {
  return isFields(value) ? Object.values(value) : asList(value);
}

function indexStep(index: number): Step {
  return (value) => {
    const found = asList(value).at(index);
    return found === undefined ? [] : [found];
  };
}

const TOKEN =
  /\.((?:[\w-]|\\.)+)|\.?\[\?\(@((?:\.[\w-]+)+)\s*==\s*["']([^"']*)["']\)\]|\[(-?\d+)\]|\[\*\]|\['([^']*)'\]/y;

function toStep(match: RegExpExecArray): Step {
  const [, plain, filter, expected, index, quoted] = match;
  const key = plain?.replace(/\\(.)/g, "$1") ?? quoted;
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
  // Parsing is recursive, and a sticky expression has state, so each call needs its own copy.
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

/** Parses a path. An invalid path finds nothing. */
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
