// SPDX-License-Identifier: Apache-2.0
// Built-in admission plugins, which run before and after the webhooks.
import type { Clock } from "@patchbay/base";
import { checkEscalation } from "../auth/rbac/escalation.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import { forbiddenBecause } from "../auth/forbidden.ts";
import {
  LIMIT_RANGE,
  describeClaimFaults,
  describePodFaults,
  readLimits,
  setContainerDefaults,
} from "../kinds/cluster/limit-range.ts";
import { bucketOf } from "../kinds/kind.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../kinds/storage/persistent-volume-claim.ts";
import { POD } from "../kinds/workload/pod.ts";
import { type Fields, asFields, equalJson, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { Admission, AdmissionRequest, Mutation } from "./admission.ts";
import { restrictNode } from "./node-restriction.ts";
import { setServiceAccount } from "./service-account.ts";
import { setDefaultStorageClass, rejectUploadClaims } from "./persistent-volume-claim.ts";

interface BuiltInAdmissionDeps {
  readonly store: Pick<Store, "find" | "list" | "subscribe">;
  readonly clock: Clock;
  readonly random: { readonly suffix: () => string };
  readonly authorizer: Authorizer;
}

function listLimits({ namespace }: AdmissionRequest, store: Pick<Store, "list">): Fields[] {
  const ranges = store.list({ bucket: bucketOf(LIMIT_RANGE), namespace });
  return ranges.flatMap((range) => readLimits(range.view()));
}

function isNewPod({ kind, subresource, operation }: AdmissionRequest): boolean {
  return bucketOf(kind) === bucketOf(POD) && subresource === "" && operation === "CREATE";
}

const PRIORITY_CLASSES = "scheduling.k8s.io/priorityclasses";

/** Priorities of the PriorityClasses that exist in every cluster. Source: Kubernetes pkg/apis/scheduling. */
const SYSTEM_CLASSES: ReadonlyMap<string, number> = new Map([
  ["system-cluster-critical", 2_000_000_000],
  ["system-node-critical", 2_000_001_000],
]);

function setPriority(request: Mutation, store: Pick<Store, "find">): void {
  const { object } = request;
  const spec = asFields(object["spec"]);
  const name = textAt(spec, "priorityClassName");
  if (!isNewPod(request) || name === "") return;
  const priorityClass = store.find({ bucket: PRIORITY_CLASSES, namespace: "", name })?.view();
  const value = SYSTEM_CLASSES.get(name) ?? valueAt(priorityClass, "value");
  if (typeof value !== "number") {
    const pod = { group: "", resource: "pods", name: object.metadata.name };
    throw forbiddenBecause(pod, `no PriorityClass with name ${name} was found`);
  }
  spec["priority"] = value;
  spec["preemptionPolicy"] = valueAt(priorityClass, "preemptionPolicy") ?? "PreemptLowerPriority";
}

function applyLimitRanges(request: Mutation, store: Pick<Store, "list">): void {
  if (isNewPod(request)) setContainerDefaults(request.object, listLimits(request, store));
}

function hasNewSize({ kind, subresource, object, oldObject }: AdmissionRequest): boolean {
  const isClaim = bucketOf(kind) === bucketOf(PERSISTENT_VOLUME_CLAIM) && subresource === "";
  const [size, oldSize] = [object, oldObject].map((claim) => valueAt(claim, "spec", "resources"));
  return isClaim && !equalJson(size, oldSize);
}

function checkLimitRanges(request: AdmissionRequest, store: Pick<Store, "list">): void {
  const { kind, object } = request;
  const isClaim = hasNewSize(request);
  if (object === undefined || !(isClaim || isNewPod(request))) return;
  const describe = isClaim ? describeClaimFaults : describePodFaults;
  const faults = describe(object, listLimits(request, store));
  if (faults !== undefined) throw forbiddenBecause({ ...kind, name: object.metadata.name }, faults);
}

class BuiltInAdmission implements Admission {
  readonly #deps: BuiltInAdmissionDeps;
  readonly #webhooks: Admission;

  constructor(deps: BuiltInAdmissionDeps, webhooks: Admission) {
    this.#deps = deps;
    this.#webhooks = webhooks;
  }

  /** Runs the mutating plugins and webhooks. Checks for privilege escalation last, because webhooks may add rules to a role. */
  async mutate(
    request: Mutation,
    complete: (object: KubeObject) => KubeObject,
  ): Promise<KubeObject> {
    await setServiceAccount(request, this.#deps);
    applyLimitRanges(request, this.#deps.store);
    setPriority(request, this.#deps.store);
    setDefaultStorageClass(request, this.#deps.store);
    const object = await this.#webhooks.mutate(request, complete);
    // Webhooks may have added containers.
    applyLimitRanges({ ...request, object }, this.#deps.store);
    checkEscalation({ ...request, object }, this.#deps.authorizer);
    return object;
  }

  async validate(request: AdmissionRequest): Promise<void> {
    restrictNode(request, this.#deps.store);
    rejectUploadClaims(request, this.#deps.store);
    checkLimitRanges(request, this.#deps.store);
    return this.#webhooks.validate(request);
  }

  async admitDeletion(request: AdmissionRequest): Promise<void> {
    restrictNode(request, this.#deps.store);
    return this.#webhooks.admitDeletion(request);
  }
}

export function withBuiltInAdmission(deps: BuiltInAdmissionDeps, webhooks: Admission): Admission {
  return new BuiltInAdmission(deps, webhooks);
}
