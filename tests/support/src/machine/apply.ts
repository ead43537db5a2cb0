// SPDX-License-Identifier: Apache-2.0
// What does `kubectl apply` send to create an object, and where? Source: kubectl apply, --validate=strict.
import type { KubeObject } from "@patchbay/api";

const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
const NAMESPACE = "default";

interface ResourceList {
  readonly resources: readonly {
    readonly name: string;
    readonly kind: string;
    readonly namespaced: boolean;
  }[];
}

/** An object, and the collection that it is created in. */
interface Creation {
  readonly path: string;
  readonly body: object;
}

function resourceOf({ apiVersion, kind }: KubeObject, list: unknown) {
  // Discovery's answer; nothing while the definition of the kind is not served.
  const { resources } = (list ?? { resources: [] }) as ResourceList;
  const found = resources.find((one) => one.kind === kind && !one.name.includes("/"));
  if (found === undefined) throw new Error(`no resource of kind ${kind} in ${apiVersion}`);
  return found;
}

/** Remembers what was applied, so that a later `kubectl apply` takes away what it leaves out. */
function applied({ metadata, ...object }: KubeObject): object {
  const text = JSON.stringify({ ...object, metadata });
  return {
    ...object,
    metadata: { ...metadata, annotations: { ...metadata.annotations, [LAST_APPLIED]: text } },
  };
}

/** How an object is created; `read` answers what the server has at a path. */
export function creationOf(object: KubeObject, read: (path: string) => unknown): Creation {
  const { apiVersion, metadata } = object;
  const group = `/${apiVersion.includes("/") ? "apis" : "api"}/${apiVersion}`;
  const { name, namespaced } = resourceOf(object, read(group));
  const { namespace = NAMESPACE } = metadata;
  const collection = namespaced ? `${group}/namespaces/${namespace}/${name}` : `${group}/${name}`;
  return { path: `${collection}?fieldValidation=Strict`, body: applied(object) };
}
