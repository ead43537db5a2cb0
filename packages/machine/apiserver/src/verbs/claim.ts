// SPDX-License-Identifier: Apache-2.0
// What only one object of a kind can have is given in the mutation that writes the object.
import { invalid } from "../meta/status.ts";
import { bucketOf, type Kind } from "../kinds/kind.ts";
import { type Address, type KubeObject, printAddress } from "../objects/object.ts";
import type { Transaction } from "../storage/store.ts";
import { aboutOf } from "./call.ts";
import type { VerbDeps } from "./deps.ts";

/** An object that is about to be written, and what it is to replace. */
export interface Writing {
  readonly kind: Kind;
  readonly address: Address;
  readonly object: KubeObject;
  readonly current?: KubeObject;
}

/** Changes the object. Throws a StatusError 422. */
export function takeClaims(
  { kind, address, object, current }: Writing,
  transaction: Transaction,
  { serviceNetwork, random }: Pick<VerbDeps, "serviceNetwork" | "random">,
): void {
  const { claim } = kind.strategy;
  if (claim === undefined) return;
  const own = printAddress(address);
  const others = (): readonly KubeObject[] =>
    transaction
      .list(bucketOf(kind))
      .filter((stored) => printAddress(stored.address) !== own)
      .map((stored) => stored.view());
  const causes = claim(object, current, { others, network: serviceNetwork, random: random.part });
  if (causes.length > 0) throw invalid(aboutOf(kind), address.name, causes);
}
