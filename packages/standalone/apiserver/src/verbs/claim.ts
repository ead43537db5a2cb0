// SPDX-License-Identifier: Apache-2.0
import { invalid } from "../meta/status.ts";
import { bucketOf, type Kind } from "../kinds/kind.ts";
import { type Address, type KubeObject, printAddress } from "../objects/object.ts";
import type { Transaction } from "../storage/store.ts";
import { toResourceRef } from "./call.ts";
import type { VerbDeps } from "./deps.ts";

export interface PendingWrite {
  readonly kind: Kind;
  readonly address: Address;
  readonly object: KubeObject;
  readonly current?: KubeObject;
}

/**
 * Assigns values that no other object of the kind may have, such as a Service's cluster IP and node ports.
 * @throws StatusError 422 if the object requests a value that another object has
 */
export function claimUniqueValues(
  { kind, address, object, current }: PendingWrite,
  transaction: Transaction,
  { serviceNetwork, random }: Pick<VerbDeps, "serviceNetwork" | "random">,
): void {
  const { claim } = kind.strategy;
  if (claim === undefined) return;
  const ownKey = printAddress(address);
  const otherObjects = (): readonly KubeObject[] =>
    transaction
      .list(bucketOf(kind))
      .filter((stored) => printAddress(stored.address) !== ownKey)
      .map((stored) => stored.view());
  const causes = claim(object, current, {
    otherObjects,
    network: serviceNetwork,
    random: random.fraction,
  });
  if (causes.length > 0) throw invalid(toResourceRef(kind), address.name, causes);
}
