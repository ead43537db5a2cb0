// SPDX-License-Identifier: Apache-2.0
// Do the manifests grant what they should, and no more than can be said in words?
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { customResourceDefinitions, names, type ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFakeStore } from "@patchbay/kube/testing";
import { createFiles } from "@patchbay/os";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { applyManifests, parseManifests, readManifests } from "./manifests.ts";
import { listRights } from "./testing.ts";
import { isRole, type Role } from "./types.ts";

const files = createFiles();
const base = parseManifests(await readManifests(files, "rights"));
const standalone = parseManifests(await readManifests(files, "standalone"), "node1");
const roles = standalone.filter(isRole);

function findRole(name: string): Role {
  const found = roles.find(({ metadata }) => metadata.name === name);
  if (found === undefined) throw new Error(`there is no role ${name}`);
  return found;
}

/** Rights of a role, as `verb resource`. */
function rightsIn(name: string): readonly string[] {
  const role = findRole(name);
  const binding = {
    apiVersion: role.apiVersion,
    kind: "ClusterRoleBinding",
    metadata: { name },
    roleRef: { kind: role.kind, name },
    subjects: [{ kind: "User", name: "somebody" }],
  };
  return listRights([role, binding]).map(({ verb, resource }) => `${verb} ${resource}`);
}

function named(objects: readonly KubeObject[], kind: string): readonly string[] {
  return objects.filter((object) => object.kind === kind).map(({ metadata }) => metadata.name);
}

describe("the components", () => {
  const accounts = ["net-agent", "virt-api", "virt-controller", "virt-handler"];

  test("have an account, a role and a binding each", () => {
    expect(named(base, "ServiceAccount")).toEqual(accounts);
    expect(named(base, "ClusterRoleBinding")).toEqual([
      ...accounts.map((name) => `patchbay:${name}`),
      "kubevirt.io:default",
      "instancetype.kubevirt.io:view",
    ]);
    for (const name of accounts) expect(findRole(`patchbay:${name}`).rules).not.toEqual([]);
  });

  test("run as the users of their certificates", () => {
    const users = [...new Set(listRights(base).map(({ user }) => user))];
    expect(users).toEqual([
      ...accounts.map((name) => `system:serviceaccount:patchbay:${name}`),
      "system:authenticated",
    ]);
  });

  test("on a node may not change specifications, and create only events", () => {
    for (const name of ["virt-handler", "net-agent"]) {
      const writes = rightsIn(`patchbay:${name}`).filter(
        (right) => !/^(get|list|watch) /.test(right),
      );
      // What is asked of virt-api changes nothing.
      const changes = writes.filter((right) => !right.startsWith("update relaycertificate"));
      expect(changes.filter((right) => !/^patch \S+\/status$/.test(right))).toEqual([
        "create events",
        "patch events",
      ]);
    }
  });

  test("virt-api reads no pods except those of the agents", () => {
    const user = "system:serviceaccount:patchbay:virt-api";
    const pods = listRights(base).filter(
      (right) => right.user === user && right.resource === "pods",
    );
    expect(pods).toEqual(
      ["get", "list"].map((verb) => ({ user, verb, resource: "pods", namespace: "patchbay" })),
    );
  });

  test("read no secrets, and grant no rights", () => {
    const forbidden = /secrets|serviceaccounts|rbac|certificates|impersonate|escalate|\*/;
    const own = roles.filter(({ metadata }) => metadata.name.startsWith("patchbay:"));
    const rights = own.flatMap(({ metadata }) => rightsIn(metadata.name));
    expect(rights.filter((right) => forbidden.test(right))).toEqual([]);
  });
});

const reviews = ["tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"];

test("a cluster adds rights for virt-api's certificates, CA bundles, leader election and metrics", async () => {
  const known = listRights(base).map((right) => JSON.stringify(right));
  const added = listRights(parseManifests(await readManifests(files, "base"))).filter(
    (right) => !known.includes(JSON.stringify(right)),
  );
  const lines = added.map(({ user, verb, resource, namespace = "" }) =>
    [user.split(":").at(-1), verb, resource, namespace].join(" ").trim(),
  );
  const written = ["list", "watch", "patch"];
  const configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"].map(
    (resource) => `${resource}.admissionregistration.k8s.io`,
  );
  const ofApi = ["secrets patchbay", "apiservices.apiregistration.k8s.io", ...configurations];
  const leases = "leases.coordination.k8s.io patchbay";
  expect(new Set(lines)).toEqual(
    new Set([
      ...ofApi.flatMap((resource) => written.map((verb) => `virt-api ${verb} ${resource}`)),
      ...["create", "get", "list", "watch", "update"].map(
        (verb) => `virt-controller ${verb} ${leases}`,
      ),
      // virt-api and virt-controller create access reviews on a standalone machine too, for networks and claims.
      ...["net-agent", "virt-api", "virt-controller", "virt-handler"].flatMap((service) =>
        reviews
          .filter(
            (review) => !service.match(/^virt-(api|controller)$/) || review.startsWith("token"),
          )
          .map((review) => `${service} create ${review}`),
      ),
    ]),
  );
});

test("net-agent beside KubeVirt has the same rights as elsewhere, and no other component", async () => {
  const only = parseManifests(await readManifests(files, "net-agent-only"));
  const user = "system:serviceaccount:patchbay:net-agent";
  const everywhere = listRights(base).filter((right) => right.user === user);
  const ofMetrics = reviews.map((resource) => ({ user, verb: "create", resource }));
  expect(listRights(only)).toEqual([...everywhere, ...ofMetrics]);
  expect(named(only, "DaemonSet")).toEqual(["net-agent"]);
  expect(named(only, "Deployment")).toEqual([]);
  expect(named(only, "CustomResourceDefinition")).toEqual([
    "network-attachment-definitions.k8s.cni.cncf.io",
  ]);
  expect(JSON.stringify(only)).not.toMatch(/virtualmachines"/);
});

describe("the standalone machine", () => {
  test("has the base, and the rights of its node's user", () => {
    expect(standalone).toEqual(expect.arrayContaining([...base]));
    const node = listRights(standalone).filter(({ user }) => user === "system:node:node1");
    expect(node).toContainEqual({
      user: "system:node:node1",
      verb: "patch",
      resource: "leases.coordination.k8s.io",
      namespace: "kube-node-lease",
      name: "node1",
    });
  });

  test("does not let a node bind pods, which needs its own account", () => {
    const binding = listRights(standalone).filter(({ resource }) => resource === "pods/binding");
    const user = "system:serviceaccount:patchbay:binder";
    expect(binding).toEqual([{ user, verb: "create", resource: "pods/binding" }]);
  });

  test("lets node-runtime change its own node only", () => {
    const { rules } = findRole("patchbay:node-runtime");
    const nodes = rules.filter(({ resources = [] }) =>
      resources.some((name) => /^nodes/.test(name)),
    );
    const anyNode = nodes.filter(({ resourceNames }) => resourceNames?.join() !== "node1");
    expect(anyNode.map(({ verbs }) => verbs)).toEqual([["create"]]);
  });

  test("replaces the node's name everywhere", () => {
    expect(JSON.stringify(standalone)).not.toContain("NODE_NAME");
  });
});

describe("the roles of users", () => {
  const kinds = customResourceDefinitions()
    .map(({ spec }) => spec)
    .filter(({ group, names: { kind } }) => group !== names.NAD_GROUP && kind !== "KubeVirt")
    .map(({ group, names: { plural } }) => `${plural}.${group}`);

  test("admin includes edit, and edit includes view", () => {
    const [admin, edit, view] = ["admin", "edit", "view"].map((name) =>
      rightsIn(`kubevirt.io:${name}`),
    );
    expect(admin).toEqual(expect.arrayContaining([...(edit ?? [])]));
    expect(edit).toEqual(expect.arrayContaining([...(view ?? [])]));
  });

  test("view reads every kind in a namespace, and writes nothing", () => {
    const view = rightsIn("kubevirt.io:view");
    expect(view).toEqual(expect.arrayContaining(kinds.map((kind) => `watch ${kind}`)));
    expect(view.filter((right) => !/^(get|list|watch) /.test(right))).toEqual([]);
  });

  test("authenticated users may read the version and cluster-wide types, but no VMs", () => {
    const rights = listRights(base).filter(({ user }) => user === "system:authenticated");
    const offered = ["virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences"];
    expect(new Set(rights.map(({ verb, resource }) => `${verb} ${resource}`))).toEqual(
      new Set([
        ...["guestfs", "healthz", "version"].flatMap((name) =>
          ["get", "list"].map((verb) => `${verb} ${name}.subresources.kubevirt.io`),
        ),
        ...offered.flatMap((name) =>
          ["get", "list", "watch"].map((verb) => `${verb} ${name}.instancetype.kubevirt.io`),
        ),
      ]),
    );
  });

  test("only the cluster administrator writes networks or the configuration", () => {
    const rights = ["admin", "edit"].flatMap((name) => rightsIn(`kubevirt.io:${name}`));
    expect(rights.filter((right) => /^(get|list|watch) network-/.test(right))).toHaveLength(6);
    expect(rights.filter((right) => /^(?!get|list|watch).* network-/.test(right))).toEqual([]);
    expect(rights.filter((right) => right.includes("kubevirts"))).toEqual([]);
  });

  test.each(["admin", "edit", "view"])(
    "%s is aggregated to Kubernetes' role with this name",
    (name) => {
      expect(findRole(`kubevirt.io:${name}`).metadata.labels).toMatchObject({
        [`rbac.authorization.k8s.io/aggregate-to-${name}`]: "true",
      });
    },
  );
});

describe("the rights for MultiNetworkPolicies", () => {
  const prefix = "patchbay:multi-network-policies";

  test("are not those of a cluster without them", async () => {
    const others = parseManifests(await readManifests(files, "base"));
    expect(others.filter(({ metadata }) => metadata.name.startsWith(prefix))).toEqual([]);
    expect(JSON.stringify(others)).not.toContain("multi-networkpolicies");
  });

  test("let virt-handler read policies, and no pods", () => {
    expect(rightsIn(prefix)).toEqual([
      ...["multi-networkpolicies", "network-attachment-definitions"].flatMap((kind) =>
        ["list", "watch"].map((verb) => `${verb} ${kind}.k8s.cni.cncf.io`),
      ),
      "list namespaces",
      "watch namespaces",
    ]);
  });

  test("let editors write policies, and viewers read them", () => {
    const kind = "multi-networkpolicies.k8s.cni.cncf.io";
    const aggregate = "rbac.authorization.k8s.io/aggregate-to";
    expect(rightsIn(`${prefix}:edit`)).toContain(`create ${kind}`);
    expect(rightsIn(`${prefix}:view`)).toEqual(
      ["get", "list", "watch"].map((verb) => `${verb} ${kind}`),
    );
    expect(findRole(`${prefix}:edit`).metadata.labels).not.toHaveProperty(`${aggregate}-view`);
    expect(findRole(`${prefix}:view`).metadata.labels).toHaveProperty(`${aggregate}-view`, "true");
  });
});

test.each(["base", "net-agent-only", "multi-network-policies", "standalone"] as const)(
  "%s has the same content in YAML 1.1, as kubectl reads it",
  async (folder) => {
    const manifests = await readManifests(files, folder);
    const read = (version: "1.1" | "1.2"): readonly unknown[] =>
      manifests.flatMap(({ text }) =>
        parseAllDocuments(text, { version }).map((document) => document.toJS() as unknown),
      );
    expect(read("1.1")).toEqual(read("1.2"));
  },
);

/** Paths of the CRDs that the kustomization of a folder renders, with those of its bases. */
function listDefinitions(folder: string): readonly string[] {
  // The cast is safe, because the files are part of this repository.
  const kustomization = parse(readFileSync(join(folder, "kustomization.yaml"), "utf8")) as {
    readonly bases?: readonly string[];
    readonly resources?: readonly string[];
  };
  const { bases = [], resources = [] } = kustomization;
  const paths = resources.map((name) => join(folder, name));
  return [
    ...bases.flatMap((base) => listDefinitions(join(folder, base))),
    ...paths.filter((path) => /^kind: CustomResourceDefinition$/m.test(readFileSync(path, "utf8"))),
  ];
}

// `kubectl delete -k` deletes what a folder lists: with a definition, every object of its kind.
test("no overlay contains a CRD, and no kustomization contains that of networks", () => {
  const root = join(import.meta.dirname, "../../../..");
  const manifests = join(root, "packages/common/manifests");
  const overlays = readdirSync(manifests, { recursive: true, encoding: "utf8" })
    .filter((path) => basename(path) === "kustomization.yaml" && !path.includes("node_modules"))
    // Only `patchbay up` applies this folder.
    .filter((path) => dirname(path) !== "standalone")
    .map((path) => join(manifests, dirname(path)));
  expect(overlays.length).toBeGreaterThan(5);
  expect(overlays.flatMap(listDefinitions)).toEqual([]);
  const definitions = listDefinitions(join(root, "crds"));
  expect(definitions.length).toBeGreaterThan(5);
  expect(definitions.filter((path) => path.includes("network-attachment"))).toEqual([]);
});

const objects = parseManifests(await readManifests(createFiles(), "standalone"), "node1");
const RBAC = { group: "rbac.authorization.k8s.io", version: "v1" } as const;
const ROLE_TYPES: readonly ResourceType<KubeObject>[] = [
  { ...RBAC, namespaced: false, resource: "clusterroles", kind: "ClusterRole" },
  { ...RBAC, namespaced: true, resource: "roles", kind: "Role" },
];

/** Rules and labels of all roles that the store has, by name. */
async function storedRoles(store: ReturnType<typeof createFakeStore>): Promise<unknown> {
  const lists = await Promise.all(ROLE_TYPES.map((type) => store.list(type)));
  return byName(lists.flatMap(({ items }) => items).filter(isRole));
}

function byName(roles: readonly Role[]): unknown {
  return Object.fromEntries(
    roles.map(({ kind, metadata, rules }) => [
      `${kind} ${metadata.name}`,
      { labels: metadata.labels, rules },
    ]),
  );
}

const wanted = byName(objects.filter(isRole));

test.each([
  { name: "a duplicate key", text: "kind: Role\nkind: Role\n", want: "line 2, column 1" },
  { name: "an unknown tag", text: "kind: !role Role\n", want: "!role" },
  { name: "invalid YAML", text: "kind: 'Role\n", want: "quote" },
])("rejects a manifest with $name, with its path and the reason", ({ text, want }) => {
  const parse = () => parseManifests([{ path: "a.yaml", text }]);
  expect(parse).toThrow(
    expect.objectContaining({
      code: "API_MALFORMED",
      details: { what: "manifest a.yaml", reason: expect.stringContaining(want) as string },
    }),
  );
});

test("parses several documents in one text as several objects", () => {
  const text = "kind: Role\nmetadata: { name: on-NODE_NAME }\n---\nkind: yes\n";
  expect(parseManifests([{ path: "a.yaml", text }], "node1")).toEqual([
    { kind: "Role", metadata: { name: "on-node1" } },
    { kind: "yes" },
  ]);
});

test("applies all objects to an empty server", async () => {
  const store = createFakeStore();
  await applyManifests(store, objects);
  expect(await storedRoles(store)).toEqual(wanted);
});

test("applying all objects again changes nothing", async () => {
  const store = createFakeStore();
  await applyManifests(store, objects);
  await applyManifests(store, objects);
  expect(await storedRoles(store)).toEqual(wanted);
});

test("replaces the rules and labels of an older version's role", async () => {
  const store = createFakeStore();
  for (const role of objects.filter(isRole)) {
    const { apiVersion, kind, metadata } = role;
    const rules = [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }];
    const { name, namespace } = metadata;
    const where = namespace === undefined ? {} : { namespace };
    const older: Role = { apiVersion, kind, metadata: { name, ...where }, rules };
    for (const type of ROLE_TYPES) if (type.kind === kind) store.put(type, older);
  }
  await applyManifests(store, objects);
  expect(await storedRoles(store)).toEqual(wanted);
});

test("rejects a kind that no manifest has", async () => {
  const unknownKind = { apiVersion: "v1", kind: "Stranger", metadata: { name: "one" } };
  await expect(applyManifests(createFakeStore(), [unknownKind])).rejects.toMatchObject({
    code: "API_MALFORMED",
  });
});
