// SPDX-License-Identifier: Apache-2.0
// OpenAPI documents of what is served: one in v2, one for each group version in v3.
import { createHash } from "node:crypto";
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import { definitionsOf } from "./definitions.ts";
import type { OpenApiVersion } from "./shape-definitions.ts";

const INFO = { title: "Kubernetes", version: "v1.30.0" };

/** `api/v1` or `apis/<group>/<version>`. */
export function pathOfVersion(kind: Pick<Kind, "group" | "version">): string {
  return kind.group === "" ? `api/${kind.version}` : `apis/${apiVersionOf(kind)}`;
}

/** Query parameters by which clients see what the server understands. */
function parameters(version: OpenApiVersion): Fields[] {
  const typed = version === "v2" ? { type: "string" } : { schema: { type: "string" } };
  return ["dryRun", "fieldValidation"].map((name) => ({ name, in: "query", ...typed }));
}

function operation(kind: Kind, action: string, version: OpenApiVersion): Fields {
  return {
    "x-kubernetes-action": action,
    "x-kubernetes-group-version-kind": {
      group: kind.group,
      version: kind.version,
      kind: kind.kind,
    },
    parameters: action === "get" || action === "list" ? [] : parameters(version),
    responses: { "200": { description: "OK" } },
  };
}

function pathsOf(kind: Kind, version: OpenApiVersion): Fields {
  const namespace = kind.namespaced ? "/namespaces/{namespace}" : "";
  const collection = `/${pathOfVersion(kind)}${namespace}/${kind.resource}`;
  return {
    [collection]: {
      get: operation(kind, "list", version),
      post: operation(kind, "post", version),
    },
    [`${collection}/{name}`]: {
      get: operation(kind, "get", version),
      put: operation(kind, "put", version),
      patch: operation(kind, "patch", version),
      delete: operation(kind, "delete", version),
    },
  };
}

function allPaths(kinds: readonly Kind[], version: OpenApiVersion): Fields {
  return Object.assign({}, ...kinds.map((kind) => pathsOf(kind, version))) as Fields;
}

/** The document of everything in v2. */
export function toSwagger(kinds: readonly Kind[]): Fields {
  return {
    swagger: "2.0",
    info: INFO,
    paths: allPaths(kinds, "v2"),
    definitions: definitionsOf(kinds, "v2"),
  };
}

/** The document of one group version in v3. */
export function toOpenApi3(kinds: readonly Kind[]): Fields {
  return {
    openapi: "3.0.0",
    info: INFO,
    paths: allPaths(kinds, "v3"),
    components: { schemas: definitionsOf(kinds, "v3") },
  };
}

/** Hashes of documents by their first kind: built-in kinds never change, and others are new objects when they do. */
const HASHES = new WeakMap<Kind, { readonly kinds: readonly Kind[]; readonly hash: string }>();

function hashOf(kinds: readonly Kind[]): string {
  const [first] = kinds;
  const known = first === undefined ? undefined : HASHES.get(first);
  if (
    known?.kinds.length === kinds.length &&
    known.kinds.every((kind, index) => kind === kinds[index])
  ) {
    return known.hash;
  }
  const text = JSON.stringify(toOpenApi3(kinds));
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 32).toUpperCase();
  if (first !== undefined) {
    HASHES.set(first, { kinds, hash });
  }
  return hash;
}

/** Address of the document of one group version in v3; it changes with the document, so that clients can keep it. */
export function documentAddress(path: string, kinds: readonly Kind[]): string {
  return `/openapi/v3/${path}?hash=${hashOf(kinds)}`;
}

/** The list of documents in v3. */
export function toIndex(kinds: readonly Kind[]): Fields {
  const byPath = new Map<string, Kind[]>();
  for (const kind of kinds) {
    const path = pathOfVersion(kind);
    byPath.set(path, [...(byPath.get(path) ?? []), kind]);
  }
  const paths = [...byPath].map(
    ([path, own]) => [path, { serverRelativeURL: documentAddress(path, own) }] as const,
  );
  return { paths: Object.fromEntries(paths) };
}
