// SPDX-License-Identifier: Apache-2.0
// How much does a pod ask of its node, and how much does the node have? Pure.
import { parseQuantity, type Container, type KubeNode, type Pod } from "@patchbay/api";
import { requestOf } from "../translate/resources.ts";

/** By resource; thousandths of a processor, bytes, else pieces. */
export type Amounts = ReadonlyMap<string, number>;

/** A processor is counted in thousandths. Source: Kubernetes meaning of CPU. */
const PARTS_OF_CPU = 1000;

/** Whole units: sums of them are exact, those of 0.1 are not. */
function unitsOf(resource: string, amount: number): number {
  return Math.ceil(resource === "cpu" ? Math.round(amount * 1e6) / (1e6 / PARTS_OF_CPU) : amount);
}

function namesOf({ resources }: Container): readonly string[] {
  return Object.keys({ ...resources?.limits, ...resources?.requests });
}

/**
 * What the pod asks for: its containers together, or its largest init container where that is more, since they run one by
 * one. Source: Kubernetes "Resource sharing within containers".
 */
export function podRequestOf({ spec }: Pod): Amounts {
  const { containers, initContainers = [] } = spec;
  const names = [...containers, ...initContainers].flatMap(namesOf);
  const amountOf = (one: Container, name: string): number => unitsOf(name, requestOf(one, name));
  const asked = [...new Set(names)].map((name) => {
    const together = containers.reduce((sum, one) => sum + amountOf(one, name), 0);
    return [name, Math.max(together, ...initContainers.map((one) => amountOf(one, name)))] as const;
  });
  return new Map([...asked, ["pods", 1]]);
}

/** What the node has for pods; undefined before it has told. */
export function allocatableOf(node: KubeNode | undefined): Amounts | undefined {
  const allocatable = node?.status?.allocatable;
  if (allocatable === undefined) return undefined;
  const amounts = Object.entries(allocatable).map(
    ([name, quantity]) => [name, unitsOf(name, parseQuantity(quantity) ?? 0)] as const,
  );
  return new Map(amounts);
}
