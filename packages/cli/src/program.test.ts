// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CommanderError } from "commander";
import { parse, parseAllDocuments } from "yaml";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { COMMANDS } from "./commands/table.ts";
import { createProgram } from "./program.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-program-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

interface Ended {
  readonly out: string;
  readonly err: string;
  readonly error: unknown;
}

async function patchbay(...args: readonly string[]): Promise<Ended> {
  const texts = { out: "", err: "" };
  const program = createProgram({
    out: { write: (text) => (texts.out += text) },
    err: { write: (text) => (texts.err += text) },
    environment: {},
    version: "1.2.3",
    signal: new AbortController().signal,
  });
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    return { ...texts, error };
  }
  return { ...texts, error: undefined };
}

describe("the help", () => {
  test.each(COMMANDS.map(({ name, flags }) => ({ name, flags })))(
    "of $name lists its flags and the global flags",
    async ({ name, flags }) => {
      const { out, error } = await patchbay(...name.split(" "), "--help");
      expect(error).toMatchObject({ exitCode: 0 });
      for (const flag of flags) expect(out).toContain(flag.flags);
      expect(out).toContain("--kubeconfig <file>");
    },
  );
});

describe("an invalid call is rejected", () => {
  test.each([
    { name: "unknown command", args: ["plug"] },
    { name: "no command", args: [] },
    { name: "group without command", args: ["get"] },
    { name: "missing argument", args: ["start"] },
    { name: "too many arguments", args: ["start", "a", "b"] },
    { name: "missing flag", args: ["addinterface", "vm", "--name", "x"] },
    { name: "unknown flag", args: ["start", "vm", "--fast"] },
    { name: "bad format", args: ["version", "-o", "xml"] },
    { name: "bad duration", args: ["start", "vm", "--timeout", "soon"] },
    { name: "bad port", args: ["apiserver", "--port", "https"] },
    {
      name: "size with an instancetype",
      args: ["create", "vm", "a", "--image", "i", "--instancetype", "small", "--cpus", "2"],
    },
    { name: "bad amount", args: ["create", "vm", "a", "--image", "i", "--memory", "2 gigs"] },
    { name: "bad count", args: ["create", "vm", "a", "--image", "i", "--cpus", "0"] },
    { name: "unknown shell", args: ["completion", "fish"] },
  ])("$name", async ({ args }) => {
    const { err, error } = await patchbay(...args);
    expect(error).toBeInstanceOf(CommanderError);
    expect(err).not.toBe("");
  });
});

describe("the output format", () => {
  test.each([
    { format: "table", want: "patchbay 1.2.3\n" },
    { format: "json", want: '{\n  "version": "1.2.3"\n}\n' },
    { format: "yaml", want: "version: 1.2.3\n" },
    { format: "name", want: "1.2.3\n" },
  ])("$format is accepted before and after the command", async ({ format, want }) => {
    expect((await patchbay("version", "-o", format)).out).toBe(want);
    expect((await patchbay("-o", format, "version")).out).toBe(want);
  });
});

test("--version prints the version and succeeds", async () => {
  const { out, error } = await patchbay("--version");
  expect(out).toBe("patchbay 1.2.3\n");
  expect(error).toMatchObject({ exitCode: 0 });
});

test("-o of the local ssh client is not mistaken for the output format", async () => {
  const words = ["-t", "-o StrictHostKeyChecking=no", "--kubeconfig", join(directory, "none")];
  const { error } = await patchbay("ssh", ...words, "vm/web");
  expect(error).toMatchObject({ code: "KUBE_CONFIG_INVALID" });
});

describe("images", () => {
  const image = (...args: readonly string[]): Promise<Ended> =>
    patchbay("image", ...args, "--data-dir", join(directory, "data"));

  test("are empty without a standalone machine", async () => {
    expect((await image("list")).out).toBe("no images\n");
    expect(readdirSync(directory)).toEqual([]);
  });

  test.each([
    ["remove", "../evil"],
    ["add", "../evil", "/"],
  ])("%s %s is rejected before it changes anything", async (...args) => {
    expect((await image(...args)).error).toMatchObject({ code: "IMAGE_NAME_INVALID" });
    expect(readdirSync(directory)).toEqual([]);
  });
});

describe("create vm", () => {
  const createVm = (...args: readonly string[]): Promise<Ended> => {
    const image = args.includes("--volume-pvc") ? [] : ["--image", "debian12"];
    return patchbay("create", "vm", "web", ...image, ...args);
  };

  function fileOf(name: string, text: string): string {
    const path = join(directory, name);
    writeFileSync(path, text);
    return path;
  }

  test("prints a manifest without a server, one document for each object", async () => {
    const { out } = await createVm("--disk", "1Gi", "--disk", "2Gi", "-o", "yaml");
    expect(out).not.toMatch(/: [&*]a1/);
    const objects = parseAllDocuments(out).map((document) => document.toJS() as unknown);
    expect(objects).toMatchObject([
      { kind: "PersistentVolumeClaim", metadata: { name: "web-disk-1" } },
      { kind: "PersistentVolumeClaim", metadata: { name: "web-disk-2" } },
      { kind: "Secret" },
      {
        kind: "VirtualMachine",
        metadata: { name: "web" },
        spec: { template: { spec: { domain: { cpu: { cores: 1 }, memory: { guest: "1Gi" } } } } },
      },
    ]);
  });

  /** User data in the secret of the printed JSON. */
  function userDataIn(out: string): string {
    const list = JSON.parse(out) as {
      readonly items: readonly { readonly stringData?: { readonly userdata: string } }[];
    };
    return list.items.find((each) => each.stringData !== undefined)?.stringData?.userdata ?? "";
  }

  test("sets a new random password each time, and keys", async () => {
    const key = fileOf("id.pub", "ssh-ed25519 AAAA me\n");
    const args = ["--user", "me", "--ssh-key", key, "-o", "json"];
    const [one, two] = [await createVm(...args), await createVm(...args)].map(
      ({ out }) => parse(userDataIn(out)) as { readonly users: readonly [object] }, // our own text
    );
    const want = { name: "me", ssh_authorized_keys: ["ssh-ed25519 AAAA me"] };
    expect(one).toMatchObject({ users: [want] });
    expect(one).not.toEqual(two);
  });

  test("preserves user data unchanged", async () => {
    const text = "#!/bin/sh\necho hello\n";
    const { out } = await createVm("--user-data", fileOf("user-data", text), "-o", "json");
    expect(userDataIn(out)).toBe(text);
  });

  test("warns of user data that cloud-init would ignore", async () => {
    const { err, error } = await createVm("--user-data", fileOf("u", "users: []\n"), "-o", "json");
    expect(error).toBeUndefined();
    expect(err).toContain('warning: cloud-init ignores user data that begin with "users: []"');
  });

  test("prints user data as a literal block, even with long lines", async () => {
    const text = `#cloud-config\nssh_authorized_keys: [ssh-ed25519 ${"A".repeat(100)} me]\n`;
    const { out } = await createVm("--user-data", fileOf("user-data", text), "-o", "yaml");
    expect(out).toContain(`userdata: |\n    ${text.split("\n")[0] ?? ""}\n`);
  });

  test("writes network data for each NIC with the VM's MAC", async () => {
    const words = ["--network", "blue", "--mac", "02:00:00:00:00:07", "-o", "json"];
    const { out } = await createVm(...words);
    const list = JSON.parse(out) as {
      readonly items: readonly { readonly stringData?: Readonly<Record<string, string>> }[];
    };
    const data = list.items.find(({ stringData }) => stringData !== undefined)?.stringData ?? {};
    const { ethernets } = parse(data["networkdata"] ?? "") as {
      readonly ethernets: Readonly<Record<string, { readonly match: object }>>;
    }; // our own text
    expect(list.items.at(-1)).toMatchObject({
      spec: {
        template: {
          spec: {
            domain: {
              devices: {
                interfaces: [
                  {
                    macAddress: (ethernets["default"]?.match as { macaddress: string }).macaddress,
                  },
                  { name: "blue", macAddress: "02:00:00:00:00:07" },
                ],
              },
            },
          },
        },
      },
    });
    expect(ethernets["blue"]).toMatchObject({ match: { macaddress: "02:00:00:00:00:07" } });
    expect((await createVm("-o", "json")).out).not.toContain("networkdata");
  });

  test("sets no size with an instancetype, and infers the preference from the claim", async () => {
    const volume = ["--volume-pvc", "src:gold,name:root,bootorder:1"];
    const parts = ["--instancetype", "small", "--infer-preference"];
    const { out } = await createVm(...volume, ...parts, "-o", "json");
    const { items } = JSON.parse(out) as { readonly items: readonly unknown[] };
    expect(items.at(-1)).toMatchObject({
      spec: {
        instancetype: { name: "small" },
        preference: { inferFromVolume: "root" },
        template: {
          spec: { domain: { devices: { disks: [{ name: "root", bootOrder: 1 }, {}] } } },
        },
      },
    });
    expect(out).not.toContain('"memory"');
  });

  test("rejects a VM without a boot disk", async () => {
    const { error } = await patchbay("create", "vm", "web", "-o", "yaml");
    expect(error).toMatchObject({ code: "FLAG_INVALID" });
  });

  test("rejects missing files, and keys that cannot be added", async () => {
    const script = fileOf("script", "#!/bin/sh\n");
    const key = fileOf("id.pub", "ssh-ed25519 AAAA me\n");
    for (const args of [
      ["--user-data", join(directory, "none")],
      ["--user-data", script, "--ssh-key", key],
    ]) {
      const { error, out } = await createVm(...args, "-o", "yaml");
      expect(error).toMatchObject({ code: "FLAG_INVALID" });
      expect(out).toBe("");
    }
  });
});
