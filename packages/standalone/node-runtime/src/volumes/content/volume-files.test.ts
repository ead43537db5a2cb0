// SPDX-License-Identifier: Apache-2.0
import type { Pod, PodVolume } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aPod } from "../../testing/pods.ts";
import { aConfigMap, aPodWith, aSecret, createVolumeBench } from "../testing.ts";
import {
  listConfigMapEntries,
  listSecretEntries,
  buildFiles,
  type VolumeContents,
} from "./volume-files.ts";
import { isApiBacked, listTokenSources, listVolumeReferences } from "./references.ts";

const CONFIG = {
  ...aConfigMap("config", { "a.txt": "A", b: "B" }),
  binaryData: { raw: Buffer.from([0, 255]).toString("base64") },
};
const SECRET = aSecret("secret", { key: "hidden" });

function shownBy(pod: Pod): VolumeContents {
  return {
    pod,
    node: createVolumeBench().deps.node,
    findEntries: ({ kind, name }) => {
      if (name === "config") return listConfigMapEntries(kind === "configMap" ? CONFIG : undefined);
      return listSecretEntries(kind === "secret" && name === "secret" ? SECRET : undefined);
    },
    findToken: ({ path }) => (path === "none" ? undefined : "token"),
  };
}

/** `path mode text` of each file, and who owns it where that is not root. */
async function show(
  volume: PodVolume,
  change: Partial<Pod["spec"]> = {},
): Promise<readonly string[]> {
  const files = await buildFiles(volume, shownBy(aPodWith([volume], change)));
  return [...files].map(([path, { bytes, mode, uid, gid }]) => {
    const owner = uid === undefined && gid === undefined ? "" : ` ${String(uid)}:${String(gid)}`;
    return `${path} ${mode.toString(8)} ${Buffer.from(bytes).toString("latin1")}${owner}`;
  });
}

const ONE_LABEL = { path: "labels", fieldRef: { fieldPath: "metadata.labels" } };

const VOLUMES: readonly {
  name: string;
  volume: Omit<PodVolume, "name">;
  want: readonly string[];
}[] = [
  {
    name: "all entries of a ConfigMap, binary ones too",
    volume: { configMap: { name: "config" } },
    want: ["a.txt 644 A", "b 644 B", "raw 644 \u0000\u00ff"],
  },
  {
    name: "items at paths and with modes of their own",
    volume: {
      configMap: {
        name: "config",
        defaultMode: 0o400,
        items: [
          { key: "b", path: "deep/er" },
          { key: "a.txt", path: "x", mode: 0o755 },
        ],
      },
    },
    want: ["deep/er 400 B", "x 755 A"],
  },
  {
    name: "a secret, decoded",
    volume: { secret: { secretName: "secret", defaultMode: 0o440 } },
    want: ["key 440 hidden"],
  },
  {
    name: "nothing if an optional object is missing",
    volume: { configMap: { name: "none", optional: true } },
    want: [],
  },
  {
    name: "the existing optional items",
    volume: {
      secret: {
        secretName: "secret",
        optional: true,
        items: [
          { key: "none", path: "n" },
          { key: "key", path: "k" },
        ],
      },
    },
    want: ["k 644 hidden"],
  },
  {
    name: "downward API fields and resources",
    volume: {
      downwardAPI: {
        items: [
          ONE_LABEL,
          { path: "name", fieldRef: { fieldPath: "metadata.name" }, mode: 0o600 },
          { path: "one", fieldRef: { fieldPath: "metadata.labels['app']" } },
          {
            path: "memory",
            resourceFieldRef: { containerName: "main", resource: "limits.memory", divisor: "1Mi" },
          },
        ],
      },
    },
    want: ['labels 644 app="x"', "name 600 a", "one 644 x", "memory 644 512"],
  },
  {
    name: "several sources in one volume",
    volume: {
      projected: {
        defaultMode: 0o444,
        sources: [
          { configMap: { name: "config", items: [{ key: "b", path: "b" }] } },
          { secret: { name: "secret" } },
          { downwardAPI: { items: [ONE_LABEL] } },
          { serviceAccountToken: { path: "token" } },
        ],
      },
    },
    want: ["b 444 B", "key 444 hidden", 'labels 444 app="x"', "token 444 token"],
  },
];

describe("a volume contains", () => {
  test.each(VOLUMES)("$name", async ({ volume, want }) => {
    expect(await show({ name: "v", ...volume })).toEqual(want);
  });

  test("tokens for the pod's only user, or for its group", async () => {
    const volume = {
      name: "v",
      projected: { sources: [{ serviceAccountToken: { path: "token" } }] },
    };
    const securityContext = { runAsUser: 107 };
    expect(await show(volume, { securityContext })).toEqual(["token 600 token 107:undefined"]);
    const group = { ...securityContext, fsGroup: 108 };
    expect(await show(volume, { securityContext: group })).toEqual([
      "token 640 token undefined:108",
    ]);
    const containers = [
      { name: "one", image: "i" },
      { name: "other", image: "i", securityContext: { runAsUser: 1 } },
    ];
    expect(await show(volume, { securityContext, containers })).toEqual(["token 644 token"]);
  });

  test("files that the pod's group can read", async () => {
    const volume = { name: "v", secret: { secretName: "secret", defaultMode: 0o400 } };
    expect(await show(volume, { securityContext: { fsGroup: 108 } })).toEqual([
      "key 440 hidden undefined:108",
    ]);
  });

  test("labels sorted by name, quoted like Go strings", async () => {
    const pod = aPodWith([]);
    const labels = { z: 'say "hi"\n', a: "\u0007\u000b\u001f\\" };
    const volume = { name: "v", downwardAPI: { items: [ONE_LABEL] } };
    const files = await buildFiles(
      volume,
      shownBy({ ...pod, metadata: { ...pod.metadata, labels } }),
    );
    const text = Buffer.from(files.get("labels")?.bytes ?? []).toString();
    expect(text).toBe('a="\\a\\v\\x1f\\\\"\nz="say \\"hi\\"\\n"');
  });
});

const REFUSED: readonly { name: string; volume: Omit<PodVolume, "name">; want: string }[] = [
  {
    name: "a missing object",
    volume: { configMap: { name: "x" } },
    want: 'configmap "x" not found',
  },
  {
    name: "a missing entry",
    volume: { secret: { secretName: "secret", items: [{ key: "x", path: "x" }] } },
    want: 'secret "secret" has no entry x',
  },
  {
    name: "a missing token",
    volume: { projected: { sources: [{ serviceAccountToken: { path: "none" } }] } },
    want: "its token has not been issued yet",
  },
  {
    name: "a field of the status",
    volume: { downwardAPI: { items: [{ path: "x", fieldRef: { fieldPath: "status.podIP" } }] } },
    want: "fieldPath status.podIP is not supported in volumes",
  },
  ...["/etc/passwd", "../x", "a/../../x", "..data", "a//b", "", ".", "x".repeat(256)].map(
    (path) => ({
      name: `a file at ${path.slice(0, 20)}`,
      volume: { configMap: { name: "config", items: [{ key: "b", path }] } },
      want: `invalid path ${JSON.stringify(path)}`,
    }),
  ),
  {
    name: "a file and a directory at the same path",
    volume: {
      configMap: {
        name: "config",
        items: [
          { key: "b", path: "a" },
          { key: "b", path: "a/b" },
        ],
      },
    },
    want: "paths a/b and a collide",
  },
];

test.each(REFUSED)("rejects a volume for $name", async ({ volume, want }) => {
  await expect(show({ name: "v", ...volume })).rejects.toThrow(
    expect.objectContaining({
      code: "RUNTIME_VOLUME_FAILED",
      details: { volume: "v", reason: want },
    }),
  );
});

test("lists each referenced object once, from all volumes", () => {
  const pod = aPodWith([
    { name: "a", configMap: { name: "config" } },
    { name: "b", secret: { secretName: "secret" } },
    {
      name: "c",
      projected: { sources: [{ configMap: { name: "config" } }, { secret: { name: "other" } }] },
    },
    { name: "d", emptyDir: {} },
  ]);
  expect(listVolumeReferences(pod).map(({ kind, name }) => `${kind}/${name}`)).toEqual([
    "configMap/config",
    "secret/secret",
    "secret/other",
  ]);
});

test("a pod without volumes references no object and no token", () => {
  const bare = aPod();
  expect(listVolumeReferences(bare)).toEqual([]);
  expect(listTokenSources(bare)).toEqual([]);
  expect(listTokenSources(aPodWith([{ name: "v", projected: {} }]))).toEqual([]);
  expect(listVolumeReferences(aPodWith([{ name: "v", projected: {} }]))).toEqual([]);
});

test("lists the tokens of all volumes", () => {
  const [one, two] = [{ path: "one" }, { path: "two", audience: "vault" }];
  const pod = aPodWith([
    { name: "a", projected: { sources: [{ serviceAccountToken: one }, { secret: {} }] } },
    { name: "b", projected: { sources: [{ serviceAccountToken: two }] } },
    { name: "c", emptyDir: {} },
  ]);
  expect(listTokenSources(pod)).toEqual([one, two]);
});

test.each([
  { name: "a ConfigMap", volume: { configMap: {} }, want: true },
  { name: "a Secret", volume: { secret: {} }, want: true },
  { name: "pod fields", volume: { downwardAPI: {} }, want: true },
  { name: "several", volume: { projected: {} }, want: true },
  { name: "an empty directory", volume: { emptyDir: {} }, want: false },
])("a volume of $name follows changes: $want", ({ volume, want }) => {
  expect(isApiBacked({ name: "v", ...volume })).toBe(want);
});

test.each([
  { name: "no projected sources", volume: { projected: {} } },
  { name: "no items of the pod", volume: { downwardAPI: {} } },
  {
    name: "a missing optional object",
    volume: { configMap: { name: "x", optional: true } },
  },
  {
    name: "a missing optional entry",
    volume: {
      secret: { secretName: "secret", optional: true, items: [{ key: "x", path: "x" }] },
    },
  },
])("a volume of $name is empty", async ({ volume }) => {
  expect(await show({ name: "v", ...volume })).toEqual([]);
});

test("lists annotations by name", async () => {
  const pod = aPodWith([]);
  const annotations = { z: "2", a: "1" };
  const items = [{ path: "x", fieldRef: { fieldPath: "metadata.annotations" } }];
  const given = shownBy({ ...pod, metadata: { ...pod.metadata, annotations } });
  const files = await buildFiles({ name: "v", downwardAPI: { items } }, given);
  expect(Buffer.from(files.get("x")?.bytes ?? []).toString()).toBe('a="1"\nz="2"');
});

test.each([
  { name: "a name of 255 bytes", path: "x".repeat(255) },
  { name: "a path of 4,095 bytes", path: `${"x/".repeat(2047)}y` },
  { name: "a name that begins with a dot", path: ".x" },
  { name: "a name with two dots in it", path: "a/..x" },
])("accepts a file at $name", async ({ path }) => {
  const configMap = { name: "config", items: [{ key: "b", path }] };
  expect(await show({ name: "v", configMap })).toEqual([`${path} 644 B`]);
});

test.each([
  { name: "a path of 4,096 bytes", path: `${"x/".repeat(2047)}yy` },
  { name: "a name that is a dot", path: "a/." },
])("rejects a file at $name", async ({ path }) => {
  const configMap = { name: "config", items: [{ key: "b", path }] };
  await expect(show({ name: "v", configMap })).rejects.toThrow(
    expect.objectContaining({ code: "RUNTIME_VOLUME_FAILED" }),
  );
});

test("a common prefix of two file names is not a path collision", async () => {
  const items = [
    { key: "b", path: "a" },
    { key: "b", path: "ab" },
  ];
  const contents = await show({ name: "v", configMap: { name: "config", items } });
  expect(contents).toEqual(["a 644 B", "ab 644 B"]);
});

test("rejects a volume of more than 65,536 files", async () => {
  const contents = (counts: readonly number[]): VolumeContents => ({
    ...shownBy(aPodWith([])),
    findEntries: ({ name }) => {
      const keys = Array.from({ length: counts[Number(name)] ?? 0 }, (_key, index) => [
        `${name}-${String(index)}`,
        "",
      ]);
      return listConfigMapEntries(
        aConfigMap(name, Object.fromEntries(keys) as Record<string, string>),
      );
    },
  });
  const sources = ["0", "1"].map((name) => ({ configMap: { name } }));
  const volume = { name: "v", projected: { sources } };
  expect((await buildFiles(volume, contents([65_530, 6]))).size).toBe(65_536);
  await expect(buildFiles(volume, contents([65_530, 7]))).rejects.toThrow(/more than 65536 files/);
});
