// SPDX-License-Identifier: Apache-2.0
// Do labels, or a node, fit what somebody selects? Pure. Source: Kubernetes apimachinery labels.Requirement, component-helpers
// nodeaffinity.
import type { KubeNode } from "@patchbay/api";

/** Labels of an object. */
export type Labels = Readonly<Record<string, string>>;

/** One condition on a label, or on a field. */
export interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** Which objects are meant: all conditions hold; one without any means all. */
export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly Requirement[];
}

/** One way in which a node fits: all of it holds; one that says nothing fits no node. */
export interface NodeTerm {
  readonly matchExpressions?: readonly Requirement[];
  /** Of fields, of which there is one: `metadata.name`. */
  readonly matchFields?: readonly Requirement[];
}

type Test = (value: string | undefined, values: readonly string[]) => boolean;

const INTEGER = /^[-+]?\d+$/;

function isNumber(value: string | undefined): value is string {
  return value !== undefined && INTEGER.test(value);
}

const isIn: Test = (value, values) => value !== undefined && values.includes(value);

const TESTS: Readonly<Record<string, Test>> = {
  In: isIn,
  NotIn: (value, values) => !isIn(value, values),
  Exists: (value) => value !== undefined,
  DoesNotExist: (value) => value === undefined,
  Gt: (value, [limit]) => isNumber(value) && isNumber(limit) && Number(value) > Number(limit),
  Lt: (value, [limit]) => isNumber(value) && isNumber(limit) && Number(value) < Number(limit),
};

/** An operator that nobody knows holds nowhere. */
function holds({ key, operator, values = [] }: Requirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  return TESTS[operator]?.(value, values) ?? false;
}

/** Whether labels are meant; where nothing is selected by, none are. */
export function selectsLabels(selector: LabelSelector | undefined, labels: Labels): boolean {
  if (selector === undefined) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const equal = Object.entries(matchLabels).map(([key, value]) => ({
    key,
    operator: "In",
    values: [value],
  }));
  return [...equal, ...matchExpressions].every((one) => holds(one, labels));
}

/** Whether one of the terms fits the node. */
export function selectsNode(terms: readonly NodeTerm[], { metadata }: KubeNode): boolean {
  const fields = { "metadata.name": metadata.name };
  return terms.some(({ matchExpressions = [], matchFields = [] }) => {
    if (matchExpressions.length + matchFields.length === 0) return false;
    const areLabelsRight = matchExpressions.every((one) => holds(one, metadata.labels ?? {}));
    return areLabelsRight && matchFields.every((one) => holds(one, fields));
  });
}
