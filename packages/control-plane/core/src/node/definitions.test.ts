// SPDX-License-Identifier: Apache-2.0
import { names, type NetworkAttachmentDefinition, type NodeProblem } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { networkResources, findUnavailableNetworks, trimDefinition } from "./definitions.ts";

function aDefinition(
  { resource, problems }: { readonly resource?: string; readonly problems?: NodeProblem[] },
  generation = 2,
): NetworkAttachmentDefinition {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: {
      namespace: "ns",
      name: "blue",
      uid: "u",
      resourceVersion: "7",
      generation,
      annotations: {
        other: "x",
        ...(resource === undefined ? {} : { [names.RESOURCE_NAME_ANNOTATION]: resource }),
      },
    },
    spec: { config: "{}" },
    ...(problems === undefined ? {} : { status: { problems } }),
  };
}

function problem(node: string, reason = "NodeLinkUnfit", generation = 2): NodeProblem {
  return { node, reason, message: "it has no eth7", generation };
}

describe("devices that a pod must request", () => {
  const of = (resource: string) => [`ns/${resource}`, aDefinition({ resource })] as const;
  const definitions = new Map([
    ["ns/a", aDefinition({ resource: "nics.io/one" })],
    ["ns/b", aDefinition({ resource: "nics.io/two" })],
    ["other/a", aDefinition({ resource: "nics.io/one" })],
    ["ns/plain", aDefinition({})],
    ["ns/memory", aDefinition({ resource: "memory" })],
    of("kubernetes.io/x"),
    of("node.kubernetes.io/x"),
    of(""),
  ]);
  test.each<{ name: string; elements: [string, string][]; want: object }>([
    { name: "none", elements: [], want: {} },
    { name: "one", elements: [["ns", "a"]], want: { "nics.io/one": 1 } },
    {
      name: "each resource once for each element, in any namespace",
      elements: [
        ["ns", "a"],
        ["ns", "a"],
        ["other", "a"],
        ["ns", "b"],
      ],
      want: { "nics.io/one": 3, "nics.io/two": 1 },
    },
    {
      name: "no ordinary resources, and none of missing networks",
      elements: ["plain", "memory", "kubernetes.io/x", "node.kubernetes.io/x", "", "none"].map(
        (name) => ["ns", name],
      ),
      want: {},
    },
  ])("$name", ({ elements, want }) => {
    const selections = elements.map(([namespace, name]) => ({ namespace, name }));
    expect(Object.fromEntries(networkResources(selections, definitions))).toEqual(want);
  });

  test("nothing that no node offers, because the pod would stay Pending", () => {
    const selections = ["a", "b"].map((name) => ({ namespace: "ns", name }));
    const counts = networkResources(selections, definitions, new Set(["nics.io/two"]));
    expect(Object.fromEntries(counts)).toEqual({ "nics.io/two": 1 });
  });
});

describe("networks that a node does not have", () => {
  const NODES = ["n1", "n2", "n3"];
  test.each<{ name: string; problems: NodeProblem[]; want: string | undefined }>([
    { name: "no problem is reported", problems: [], want: undefined },
    { name: "another node has a problem", problems: [problem("n2")], want: undefined },
    {
      name: "the definition itself is invalid",
      problems: [problem("n1", "NetworkInvalid")],
      want: undefined,
    },
    {
      name: "its report is for an older generation",
      problems: [problem("n1", "NodeLinkUnfit", 1)],
      want: undefined,
    },
    {
      name: "the node only warns about it",
      problems: [problem("n1", "DefinitionTolerated")],
      want: undefined,
    },
    {
      name: "one other node has it and only warns about it",
      problems: [problem("n1"), problem("n2", "DefinitionTolerated"), problem("n3")],
      want: "n2 has it: a VM that is stopped and started there gets it",
    },
    {
      name: "other nodes have it",
      problems: [problem("n1")],
      want: "n2, n3 have it: a VM that is stopped and started there gets it",
    },
    {
      name: "one other node has it",
      problems: [problem("n1", "PluginMissing"), problem("n2")],
      want: "n3 has it: a VM that is stopped and started there gets it",
    },
    {
      name: "no node has it",
      problems: [problem("n1", "VlanUnsupported"), problem("n2"), problem("n3")],
      want: "no other node is known to have it",
    },
  ])("$name", ({ problems, want }) => {
    const absences = findUnavailableNetworks(
      "n1",
      new Map([["ns/blue", aDefinition({ problems })]]),
      NODES,
    );
    const message = `node n1 cannot make interfaces of network ns/blue: it has no eth7; ${want ?? ""}`;
    expect([...absences.values()]).toEqual(
      want === undefined ? [] : [{ reason: "NetworkNotOnNode", message }],
    );
  });

  test("names some of many nodes that have the network", () => {
    const nodes = Array.from({ length: 8 }, (_, at) => `n${String(at + 1)}`);
    const definitions = new Map([["ns/blue", aDefinition({ problems: [problem("n1")] })]]);
    expect(findUnavailableNetworks("n1", definitions, nodes).get("ns/blue")?.message).toContain(
      "n2, n3, n4, n5, n6 and 2 more have it",
    );
  });
});

test("caches only the used fields of a definition", () => {
  const problems = [problem("n1")];
  const observed = trimDefinition(aDefinition({ resource: "nics.io/one", problems }));
  expect(observed.metadata.annotations).toEqual({
    [names.RESOURCE_NAME_ANNOTATION]: "nics.io/one",
  });
  expect(findUnavailableNetworks("n1", new Map([["ns/blue", observed]]), [])).toEqual(
    findUnavailableNetworks("n1", new Map([["ns/blue", aDefinition({ problems })]]), []),
  );
  expect(trimDefinition(aDefinition({})).metadata.annotations).toBeUndefined();
});
