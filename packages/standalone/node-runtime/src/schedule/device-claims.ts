// SPDX-License-Identifier: Apache-2.0
// Creates and reserves pods' resource claims, as Kubernetes' resource claim controller and scheduler do. Drivers allocate the devices.
import { PODS, RESOURCE_CLAIMS, apiVersionOf } from "@patchbay/api";
import type {
  KubeObject,
  Pod,
  PodResourceClaim,
  ResourceClaim,
  ResourceClaimTemplate,
} from "@patchbay/api/kubernetes";
import { isAppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { keyOf, printKey, type ObjectWatches } from "@patchbay/kube";

type Watches<T extends KubeObject> = Pick<ObjectWatches<T>, "setUsed" | "list">;

export interface DeviceClaimDeps {
  readonly store: Store;
  /** Watches of claims and templates. The users are NAMESPACE/NAME of pods. */
  readonly claims: Watches<ResourceClaim>;
  readonly templates: Watches<ResourceClaimTemplate>;
  /** Returns whether the pod with this uid exists. Reservations for pods that no longer exist are dropped. */
  readonly hasPod: (uid: string) => boolean;
}

// `problem` is unset until watches are synchronized, and after the names of new claims were written to the pod's status. In each case a
// watch reports when the caller can try again.
type ClaimsState =
  | { readonly kind: "ready" }
  | { readonly kind: "waiting"; readonly problem?: string };

const READY: ClaimsState = { kind: "ready" };

/** Number of digits of the pod's uid in a claim's name. They distinguish claims of successive pods of the same name. */
const UID_DIGITS = 8;

function buildClaimName({ metadata }: Pod, { name }: PodResourceClaim): string {
  return `${metadata.name}-${name}-${(metadata.uid ?? "").slice(0, UID_DIGITS)}`;
}

function buildClaim(
  pod: Pod,
  declared: PodResourceClaim,
  { spec }: ResourceClaimTemplate,
): ResourceClaim {
  const { name, namespace = "", uid = "" } = pod.metadata;
  const { labels, annotations } = spec.metadata ?? {};
  return {
    apiVersion: apiVersionOf(RESOURCE_CLAIMS),
    kind: RESOURCE_CLAIMS.kind,
    metadata: {
      name: buildClaimName(pod, declared),
      namespace,
      ...(labels && { labels }),
      annotations: { ...annotations, "resource.kubernetes.io/pod-claim-name": declared.name },
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid, controller: true }],
    },
    spec: spec.spec,
  };
}

async function createClaim(
  { store }: DeviceClaimDeps,
  pod: Pod,
  declared: PodResourceClaim,
  template: ResourceClaimTemplate,
): Promise<void> {
  try {
    await store.create(RESOURCE_CLAIMS, buildClaim(pod, declared, template));
  } catch (error) {
    // The claim already exists. An earlier pass created it, because the claim's name contains a part of the pod's uid.
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
  }
}

/** Sets the objects that the pod needs. Returns them, or undefined until their watches are synchronized. */
function watchByName<T extends KubeObject>(
  watches: Watches<T>,
  pod: Pod,
  names: readonly string[],
): ReadonlyMap<string, T> | undefined {
  const { namespace = "" } = pod.metadata;
  const user = printKey(keyOf(pod));
  watches.setUsed(
    user,
    names.map((name) => ({ namespace, name })),
  );
  const found = watches.list(user);
  return found && new Map(found.map((object) => [object.metadata.name, object]));
}

async function createClaims(deps: DeviceClaimDeps, pod: Pod): Promise<ClaimsState | undefined> {
  const reported = pod.status?.resourceClaimStatuses ?? [];
  const missing = (pod.spec.resourceClaims ?? []).filter(
    ({ name, resourceClaimTemplateName }) =>
      resourceClaimTemplateName !== undefined && !reported.some((each) => each.name === name),
  );
  const names = missing.map(({ resourceClaimTemplateName = "" }) => resourceClaimTemplateName);
  const templates = watchByName(deps.templates, pod, names);
  if (missing.length === 0) return undefined;
  if (templates === undefined) return { kind: "waiting" };
  for (const declared of missing) {
    const name = declared.resourceClaimTemplateName ?? "";
    const template = templates.get(name);
    if (template === undefined)
      return { kind: "waiting", problem: `resourceclaimtemplate "${name}" not found` };
    await createClaim(deps, pod, declared, template);
  }
  const created = missing.map((declared) => ({
    name: declared.name,
    resourceClaimName: buildClaimName(pod, declared),
  }));
  const { resourceVersion } = pod.metadata;
  const status = { resourceClaimStatuses: [...reported, ...created] };
  const patch = { type: "merge", fields: { metadata: { resourceVersion }, status } } as const;
  await deps.store.patch(PODS, keyOf(pod), patch, { subresource: "status" });
  return { kind: "waiting" };
}

function listClaimNames({ spec, status }: Pod): readonly string[] {
  return (spec.resourceClaims ?? []).flatMap(({ name, resourceClaimName }) => {
    const reported = status?.resourceClaimStatuses?.find((each) => each.name === name);
    return resourceClaimName ?? reported?.resourceClaimName ?? [];
  });
}

/** Reserves the claim for the pod, so that the claim's driver prepares the devices and does not release them. */
async function reserve(
  { store, hasPod }: DeviceClaimDeps,
  pod: Pod,
  claim: ResourceClaim,
): Promise<void> {
  const { name, uid = "" } = pod.metadata;
  const reservedFor = claim.status?.reservedFor ?? [];
  if (reservedFor.some((consumer) => consumer.uid === uid)) return;
  const others = reservedFor.filter(
    (consumer) => consumer.resource !== "pods" || hasPod(consumer.uid),
  );
  const { resourceVersion } = claim.metadata;
  const status = { reservedFor: [...others, { resource: "pods", name, uid }] };
  const patch = { type: "merge", fields: { metadata: { resourceVersion }, status } } as const;
  await store.patch(RESOURCE_CLAIMS, keyOf(claim), patch, { subresource: "status" });
}

/** Creates, awaits and reserves the pod's claims. The pod may be bound when the claims are ready. Idempotent. */
export async function prepareDeviceClaims(deps: DeviceClaimDeps, pod: Pod): Promise<ClaimsState> {
  const created = await createClaims(deps, pod);
  if (created !== undefined) return created;
  const names = listClaimNames(pod);
  const watched = watchByName(deps.claims, pod, names);
  if (watched === undefined) return { kind: "waiting" };
  const claims: ResourceClaim[] = [];
  for (const name of names) {
    const claim = watched.get(name);
    if (claim === undefined)
      return { kind: "waiting", problem: `resourceclaim "${name}" not found` };
    claims.push(claim);
  }
  const pending = claims.find(({ status }) => status?.allocation === undefined);
  if (pending !== undefined) {
    const problem = `no driver has allocated resourceclaim "${pending.metadata.name}" yet`;
    return { kind: "waiting", problem };
  }
  for (const claim of claims) await reserve(deps, pod, claim);
  return READY;
}
