// SPDX-License-Identifier: Apache-2.0
// Usage of ResourceQuotas. Each commit updates it, so that a write need not list the namespace.
import { bucketOf, type Kind } from "../kinds/kind.ts";
import {
  type CountedObject,
  RESOURCE_QUOTA,
  STORED_BYTES,
  computeUsage,
  describeUnspecified,
  matchesScopes,
  readScopes,
} from "../kinds/cluster/resource-quota.ts";
import { type Amounts, POD, addAmounts, parseAmounts } from "../kinds/workload/pod.ts";
import { type StatusError, forbidden } from "../meta/status.ts";
import { countValues } from "../objects/extent.ts";
import { type Fields, asFields, equalJson, printJson } from "../objects/json.ts";
import type { Address, KubeObject } from "../objects/object.ts";
import { NANO, type Quantity, printQuantity } from "../shapes/scalar.ts";
import type { Change, Store, StoredObject, Transaction } from "../storage/store.ts";

const QUOTAS = bucketOf(RESOURCE_QUOTA);
const PODS = bucketOf(POD);

/** Updates may exceed a quota of stored bytes by this fraction, so that controllers can still work with objects of a full namespace. */
const UPDATE_RESERVE_DIVISOR = 8n;
/** The status reports stored bytes in units of this size, so that not every write changes the status. */
const REPORTED_BYTES_UNIT = 4096n * NANO;

/** Charge for each value of an object, because services that cache the parsed object need up to 64 bytes for a value of 3 bytes. */
const VALUE_BYTES = 24;

function computeStoredBytes(text: string): number {
  return Buffer.byteLength(text) + VALUE_BYTES * countValues(text);
}

interface SizedObject extends CountedObject {
  readonly byteCount: () => number;
}

function toSized(stored: StoredObject): SizedObject {
  return {
    address: stored.address,
    view: () => stored.view(),
    byteCount: () => computeStoredBytes(stored.text),
  };
}

function roundBytes({ nanos }: Quantity): Quantity {
  const units = (nanos + REPORTED_BYTES_UNIT - 1n) / REPORTED_BYTES_UNIT;
  return { nanos: units * REPORTED_BYTES_UNIT, family: "binary" };
}

class Quota {
  readonly name: string;
  readonly hard: Amounts;
  readonly used = new Map<string, Quantity>();
  readonly #scopes: ReturnType<typeof readScopes>;

  constructor(object: KubeObject) {
    const spec = asFields(object["spec"]);
    this.name = object.metadata.name;
    this.hard = parseAmounts(spec["hard"]);
    this.#scopes = readScopes(spec);
  }

  covers(object: CountedObject): boolean {
    return matchesScopes(this.#scopes, object);
  }

  computeCharge(object: SizedObject): Map<string, Quantity> {
    if (!this.covers(object)) return new Map();
    const charge = new Map(
      [...computeUsage(object)].filter(([name, { nanos }]) => this.hard.has(name) && nanos > 0n),
    );
    if (
      this.hard.has(STORED_BYTES) &&
      this.#scopes.length === 0 &&
      object.address.bucket !== QUOTAS
    )
      charge.set(STORED_BYTES, { nanos: BigInt(object.byteCount()) * NANO, family: "decimal" });
    return charge;
  }

  computeDelta(next: SizedObject | undefined, previous: SizedObject | undefined): Amounts {
    const delta = next === undefined ? new Map<string, Quantity>() : this.computeCharge(next);
    if (previous !== undefined) addAmounts(delta, this.computeCharge(previous), -1n);
    return new Map([...delta].filter(([, { nanos }]) => nanos !== 0n));
  }

  computeChangeDelta({ type, current, previous }: Change): Amounts {
    return this.computeDelta(
      type === "DELETED" ? undefined : toSized(current),
      previous === undefined ? undefined : toSized(previous),
    );
  }

  toStatus(): Fields {
    const hard = [...this.hard].map(([name, limit]) => [name, printQuantity(limit)]);
    const used = [...this.hard.keys()].map((name) => {
      const amount: Quantity = this.used.get(name) ?? { nanos: 0n, family: "decimal" };
      return [name, printQuantity(name === STORED_BYTES ? roundBytes(amount) : amount)];
    });
    return { hard: Object.fromEntries(hard), used: Object.fromEntries(used) };
  }
}

function printAmounts(names: readonly string[], amounts: Amounts): string {
  return names
    .map((name) => {
      const amount = amounts.get(name);
      return `${name}=${amount === undefined ? "0" : printQuantity(amount)}`;
    })
    .join(",");
}

interface PendingUsage {
  readonly quotas: Map<Quota, Map<string, Quantity>>;
  changeCount: number;
}

export interface QuotaWrite {
  readonly kind: Kind;
  readonly address: Address;
  readonly object: KubeObject;
  readonly current?: StoredObject;
}

function refuse({ kind, address }: QuotaWrite, explanation: string): StatusError {
  return forbidden(kind, address.name, explanation);
}

function checkSpecified(write: QuotaWrite, quota: Quota): void {
  if (write.address.bucket !== PODS || write.current !== undefined) return;
  const unspecified = describeUnspecified(write.object, quota.hard);
  if (unspecified !== "")
    throw refuse(write, `failed quota: ${quota.name}: must specify ${unspecified}`);
}

/** Returns whether the write raises the usage of the resource beyond the quota. As in Kubernetes, updates of pods are not limited. */
function isExceeded(
  name: string,
  { current, address }: QuotaWrite,
  amounts: { readonly requested: Amounts; readonly used: Amounts; readonly hard: Amounts },
): boolean {
  const amountOf = (each: Amounts): bigint => each.get(name)?.nanos ?? 0n;
  const [requested, hard] = [amountOf(amounts.requested), amountOf(amounts.hard)];
  const isUpdate = current !== undefined;
  if (requested <= 0n || (isUpdate && address.bucket === PODS && name !== STORED_BYTES))
    return false;
  const reserve = isUpdate && name === STORED_BYTES ? hard / UPDATE_RESERVE_DIVISOR : 0n;
  return amountOf(amounts.used) + requested > hard + reserve;
}

function isSpecChanged({ type, current, previous }: Change): boolean {
  if (type !== "MODIFIED") return true;
  return !equalJson(current.view()["spec"], previous?.view()["spec"]);
}

export class ResourceQuotas {
  readonly #store: Pick<Store, "buckets" | "list">;
  readonly #namespaces = new Map<string, ReadonlyMap<string, Quota>>();
  readonly #pendingUsages = new WeakMap<Transaction, PendingUsage>();
  #onUsageChange: (address: Address) => void = () => undefined;

  constructor(store: Pick<Store, "buckets" | "list" | "subscribe">) {
    this.#store = store;
    const addresses = store.list({ bucket: QUOTAS }).map(({ address }) => address);
    for (const namespace of new Set(addresses.map((address) => address.namespace)))
      this.#recount(namespace);
    store.subscribe((changes) => {
      this.#apply(changes);
    });
  }

  onUsageChange(listener: (address: Address) => void): void {
    this.#onUsageChange = listener;
  }

  findStatus({ namespace, name }: Address): Fields | undefined {
    return this.#namespaces.get(namespace)?.get(name)?.toStatus();
  }

  check(transaction: Transaction, write: QuotaWrite): void {
    const quotas = this.#namespaces.get(write.address.namespace);
    if (quotas === undefined) return;
    const next: SizedObject = {
      address: write.address,
      view: () => write.object,
      byteCount: () => computeStoredBytes(printJson(write.object)),
    };
    const negative = [...computeUsage(next)].filter(([, { nanos }]) => nanos < 0n);
    if (negative.length > 0) {
      const names = negative.map(([name]) => name).toSorted();
      throw refuse(write, `quota usage is negative for resource(s): ${names.join(",")}`);
    }
    const coveringQuotas = [...quotas.values()].filter((quota) => quota.covers(next));
    for (const quota of coveringQuotas) checkSpecified(write, quota);
    for (const quota of coveringQuotas) this.#checkQuota(transaction, { write, quota, next });
  }

  #checkQuota(
    transaction: Transaction,
    { write, quota, next }: { write: QuotaWrite; quota: Quota; next: SizedObject },
  ): void {
    const { current } = write;
    const requested = quota.computeDelta(next, current && toSized(current));
    const used = new Map(quota.used);
    addAmounts(used, this.#pendingUsage(transaction, quota));
    const exceeded = [...requested.keys()].filter((name) =>
      isExceeded(name, write, { requested, used, hard: quota.hard }),
    );
    if (exceeded.length === 0) return;
    const names = exceeded.toSorted();
    const amounts = [requested, used, quota.hard].map((each) => printAmounts(names, each));
    const [requestedText = "", usedText = "", hardText = ""] = amounts;
    throw refuse(
      write,
      `exceeded quota: ${quota.name}, requested: ${requestedText}, used: ${usedText}, limited: ${hardText}`,
    );
  }

  #pendingUsage(transaction: Transaction, quota: Quota): Amounts {
    const pending: PendingUsage = this.#pendingUsages.get(transaction) ?? {
      quotas: new Map(),
      changeCount: 0,
    };
    this.#pendingUsages.set(transaction, pending);
    for (; pending.changeCount < transaction.changes.length; pending.changeCount += 1) {
      const change = transaction.changes[pending.changeCount];
      if (change === undefined) break;
      for (const each of this.#namespaces.get(change.current.address.namespace)?.values() ?? []) {
        const usage = pending.quotas.get(each) ?? new Map<string, Quantity>();
        addAmounts(usage, each.computeChangeDelta(change));
        pending.quotas.set(each, usage);
      }
    }
    return pending.quotas.get(quota) ?? new Map();
  }

  #apply(changes: readonly Change[]): void {
    const changedNamespaces = new Set<string>();
    for (const change of changes) {
      const { address } = change.current;
      for (const quota of this.#namespaces.get(address.namespace)?.values() ?? []) {
        const delta = quota.computeChangeDelta(change);
        addAmounts(quota.used, delta);
        if (delta.size > 0) this.#onUsageChange({ ...address, bucket: QUOTAS, name: quota.name });
      }
      if (address.bucket === QUOTAS && isSpecChanged(change))
        changedNamespaces.add(address.namespace);
    }
    for (const namespace of changedNamespaces) this.#recount(namespace);
  }

  #recount(namespace: string): void {
    const quotas = this.#store
      .list({ bucket: QUOTAS, namespace })
      .map((stored) => new Quota(stored.view()));
    if (quotas.length === 0) {
      this.#namespaces.delete(namespace);
      return;
    }
    for (const bucket of this.#store.buckets()) {
      for (const stored of this.#store.list({ bucket, namespace })) {
        for (const quota of quotas) addAmounts(quota.used, quota.computeCharge(toSized(stored)));
      }
    }
    this.#namespaces.set(namespace, new Map(quotas.map((quota) => [quota.name, quota])));
    for (const { name } of quotas) this.#onUsageChange({ bucket: QUOTAS, namespace, name });
  }
}
