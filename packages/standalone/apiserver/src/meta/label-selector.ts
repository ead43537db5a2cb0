// SPDX-License-Identifier: Apache-2.0
// Parser for the labelSelector query parameter. Source: Kubernetes labels.Parse.
import { badRequest } from "./status.ts";
import { labelValueFault, qualifiedNameFault } from "./names.ts";

export type LabelMatcher = (labels: Readonly<Record<string, string>>) => boolean;

type Operator = "=" | "!=" | "in" | "notin" | "exists" | "!" | ">" | "<";

interface Requirement {
  readonly key: string;
  readonly operator: Operator;
  readonly values: readonly string[];
}

const INTEGER = /^[-+]?\d+$/;
const TOKEN_PATTERN = /==|!=|[=!(),<>]|[^\s=!(),<>]+/g;

function parseError(text: string, reason: string): Error {
  return badRequest(`unable to parse requirement: ${reason} in label selector "${text}"`);
}

const PUNCTUATION = new Set(["==", "!=", "=", "!", "(", ")", ",", ">", "<"]);

class Tokens {
  #position = 0;
  readonly #tokens: readonly string[];
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    this.#tokens = text.match(TOKEN_PATTERN) ?? [];
  }

  get isAtEnd(): boolean {
    return this.#position >= this.#tokens.length;
  }

  takeIf(...candidates: readonly string[]): string | undefined {
    const token = this.#tokens[this.#position];
    if (token === undefined || !candidates.includes(token)) {
      return undefined;
    }
    this.#position += 1;
    return token;
  }

  takeWord(): string {
    const token = this.#tokens[this.#position];
    if (token === undefined || PUNCTUATION.has(token)) {
      return "";
    }
    this.#position += 1;
    return token;
  }

  fail(reason: string): never {
    throw parseError(this.#text, reason);
  }
}

function takeKey(tokens: Tokens): string {
  const key = tokens.takeWord();
  const fault = qualifiedNameFault(key);
  return fault === undefined ? key : tokens.fail(`key: Invalid value: "${key}": ${fault}`);
}

function takeValue(tokens: Tokens): string {
  const value = tokens.takeWord();
  const fault = labelValueFault(value);
  return fault === undefined ? value : tokens.fail(`values: Invalid value: "${value}": ${fault}`);
}

function takeValueSet(tokens: Tokens): string[] {
  if (tokens.takeIf("(") === undefined) {
    tokens.fail("expected: '('");
  }
  const values = [takeValue(tokens)];
  while (tokens.takeIf(",") !== undefined) {
    values.push(takeValue(tokens));
  }
  return tokens.takeIf(")") === undefined ? tokens.fail("expected: ',' or ')'") : values;
}

function takeRequirement(tokens: Tokens): Requirement {
  if (tokens.takeIf("!") !== undefined) {
    return { key: takeKey(tokens), operator: "!", values: [] };
  }
  const key = takeKey(tokens);
  const setOperator = tokens.takeIf("in", "notin");
  if (setOperator === "in" || setOperator === "notin") {
    return { key, operator: setOperator, values: takeValueSet(tokens) };
  }
  const operator = tokens.takeIf("=", "==", "!=", ">", "<");
  if (operator === undefined) {
    return { key, operator: "exists", values: [] };
  }
  const value = takeValue(tokens);
  if ((operator === ">" || operator === "<") && !INTEGER.test(value)) {
    tokens.fail(
      `values[0]: Invalid value: "${value}": for 'Gt', 'Lt' operators, the value must be an integer`,
    );
  }
  return { key, operator: operator === "==" ? "=" : (operator as Operator), values: [value] };
}

function isNumber(value: string | undefined): value is string {
  return value !== undefined && INTEGER.test(value);
}

type Test = (value: string | undefined, values: readonly string[]) => boolean;

const isIn: Test = (value, values) => value !== undefined && values.includes(value);
const isNotIn: Test = (value, values) => !isIn(value, values);

const TESTS: Readonly<Record<Operator, Test>> = {
  exists: (value) => value !== undefined,
  "!": (value) => value === undefined,
  "=": isIn,
  in: isIn,
  "!=": isNotIn,
  notin: isNotIn,
  ">": (value, [limit]) => isNumber(value) && Number(value) > Number(limit),
  "<": (value, [limit]) => isNumber(value) && Number(value) < Number(limit),
};

function isSatisfied(requirement: Requirement, labels: Readonly<Record<string, string>>): boolean {
  const { key, operator, values } = requirement;
  return TESTS[operator](Object.hasOwn(labels, key) ? labels[key] : undefined, values);
}

/** Parses a selector. Returns undefined for an empty selector, which matches all labels. Throws a StatusError 400 for an invalid one. */
export function parseLabelSelector(text: string): LabelMatcher | undefined {
  if (text.trim() === "") {
    return undefined;
  }
  const tokens = new Tokens(text);
  const requirements = [takeRequirement(tokens)];
  while (!tokens.isAtEnd) {
    if (tokens.takeIf(",") === undefined) {
      tokens.fail("expected: ','");
    }
    requirements.push(takeRequirement(tokens));
  }
  return (labels) => requirements.every((requirement) => isSatisfied(requirement, labels));
}

export function makeLabelMatcher(selector: {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: string;
    readonly values?: readonly string[];
  }[];
}): LabelMatcher {
  const operators: Readonly<Record<string, Operator>> = {
    In: "in",
    NotIn: "notin",
    Exists: "exists",
    DoesNotExist: "!",
  };
  const requirements: Requirement[] = [
    ...Object.entries(selector.matchLabels ?? {}).map(([key, value]) => ({
      key,
      operator: "=" as const,
      values: [value],
    })),
    ...(selector.matchExpressions ?? []).map((expression) => ({
      key: expression.key,
      operator: operators[expression.operator] ?? "in",
      values: expression.values ?? [],
    })),
  ];
  return (labels) => requirements.every((requirement) => isSatisfied(requirement, labels));
}
