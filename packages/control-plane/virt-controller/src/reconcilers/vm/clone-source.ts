// SPDX-License-Identifier: Apache-2.0
// Authorizes DataVolumes that copy a disk from another namespace. CDI checks only the account that creates the DataVolume, which is
// virt-controller's. This account may create pods, and thus copy claims, in every namespace. Source: CDI datavolume-auth.go;
// KubeVirt authorizeDataVolume.
import { DATA_SOURCES, SUBJECT_ACCESS_REVIEWS, type DataVolume, type VmiSpec } from "@patchbay/api";
import { isJsonObject, readTextAt, valueAt } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { keyOf, printKey } from "@patchbay/kube";

type Access = Readonly<Record<"group" | "resource" | "subresource", string>>;

const CLONE_ACCESS: Access = {
  group: DATA_SOURCES.group,
  resource: "datavolumes",
  subresource: "source",
};
/** Access that permits copying a claim, but not a snapshot: an account that may create pods can mount the claim. */
const POD_ACCESS: Access = { group: "", resource: "pods", subresource: "" };

interface CloneSource {
  readonly kind: "pvc" | "snapshot";
  readonly namespace: string;
  readonly name: string;
}

/** Maximum number of DataSources in a chain, where each DataSource references the next. */
const DATA_SOURCES_MAX = 3;

function findSource(source: unknown, namespace: string): CloneSource | undefined {
  for (const kind of ["pvc", "snapshot"] as const) {
    const reference = valueAt(source, kind);
    if (isJsonObject(reference)) {
      const name = readTextAt(reference, "name") ?? "";
      return { kind, namespace: readTextAt(reference, "namespace") ?? namespace, name };
    }
  }
  return undefined;
}

async function resolveDataSource(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  store: Pick<Store, "find">,
  remaining = DATA_SOURCES_MAX,
): Promise<unknown> {
  const found = remaining > 0 ? await store.find(DATA_SOURCES, { namespace, name }) : undefined;
  const source = valueAt(found, "spec", "source");
  const next = valueAt(source, "dataSource");
  if (isJsonObject(next)) {
    const key = {
      namespace: readTextAt(next, "namespace") ?? namespace,
      name: readTextAt(next, "name") ?? "",
    };
    return resolveDataSource(key, store, remaining - 1);
  }
  const clone = findSource(source, namespace);
  if (clone !== undefined) {
    return { [clone.kind]: { namespace: clone.namespace, name: clone.name } };
  }
  throw new AppError("CONTROLLER_NO_DATA_SOURCE", { source: `${namespace}/${name}` });
}

/**
 * Replaces a reference to a DataSource by the DataSource's own source. The tenant could otherwise change the
 * DataSource between the authorization and the copy.
 */
async function withResolvedSource(
  dataVolume: DataVolume,
  store: Pick<Store, "find">,
): Promise<DataVolume> {
  const reference = valueAt(dataVolume.spec, "sourceRef");
  if (!isJsonObject(reference)) return dataVolume;
  const namespace = readTextAt(reference, "namespace") ?? dataVolume.metadata.namespace ?? "";
  const name = readTextAt(reference, "name") ?? "";
  const source = await resolveDataSource({ namespace, name }, store);
  const fields = Object.entries(dataVolume.spec).filter(([field]) => field !== "sourceRef");
  return { ...dataVolume, spec: { ...Object.fromEntries(fields), source } };
}

function findServiceAccount({ volumes = [] }: VmiSpec): string {
  const names = volumes.map((volume) => readTextAt(volume, "serviceAccount", "serviceAccountName"));
  return names.find((name) => name !== undefined) ?? "default";
}

async function mayClone(
  account: { readonly namespace: string; readonly name: string },
  source: CloneSource,
  store: Pick<Store, "create">,
): Promise<boolean> {
  const accesses = source.kind === "pvc" ? [CLONE_ACCESS, POD_ACCESS] : [CLONE_ACCESS];
  for (const access of accesses) {
    const { status } = await store.create(SUBJECT_ACCESS_REVIEWS, {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      metadata: { name: "" },
      spec: {
        user: `system:serviceaccount:${account.namespace}:${account.name}`,
        groups: [
          "system:serviceaccounts",
          `system:serviceaccounts:${account.namespace}`,
          "system:authenticated",
        ],
        resourceAttributes: {
          verb: "create",
          namespace: source.namespace,
          name: source.name,
          ...access,
        },
      },
    });
    if (status?.allowed === true) return true;
  }
  return false;
}

/**
 * Returns the DataVolume with its source resolved. If the source is in another namespace, the guest's service account
 * (`default` if the VM names none) must be allowed to copy it.
 * @throws AppError with CONTROLLER_CLONE_FORBIDDEN, CONTROLLER_NO_DATA_SOURCE
 */
export async function authorizeSource(
  dataVolume: DataVolume,
  vmiSpec: VmiSpec,
  store: Pick<Store, "find" | "create">,
): Promise<DataVolume> {
  const resolved = await withResolvedSource(dataVolume, store);
  const { namespace = "" } = dataVolume.metadata;
  const source = findSource(valueAt(resolved.spec, "source"), namespace);
  if (source === undefined || source.namespace === namespace) return resolved;
  const account = { namespace, name: findServiceAccount(vmiSpec) };
  if (await mayClone(account, source, store)) return resolved;
  throw new AppError("CONTROLLER_CLONE_FORBIDDEN", {
    object: printKey(keyOf(dataVolume)),
    source: `${source.namespace}/${source.name}`,
    namespace: source.namespace,
    account: `${account.namespace}/${account.name}`,
  });
}
