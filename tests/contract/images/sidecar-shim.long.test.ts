// SPDX-License-Identifier: Apache-2.0
// The image for hook programs, called like KubeVirt's sidecar-shim: with the command lines of KubeVirt's examples, and
// with flags that a program reads by name or, like KubeVirt's scripts, by position.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { HookSidecar } from "@patchbay/core/interfaces";
import { createHookSidecars } from "@patchbay/hooks";
import { createClock, openVolumeSocket } from "@patchbay/os";
import { createBuiltChildStarter, eventually } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { CACHE, makeImages, unpackRoot } from "./archive.ts";

const LAUNCHER = 107;
const MADE_MS = 600_000;
const POD = { uid: "uid", namespace: "default", name: "pod" };
const DOMAIN = "<domain type='kvm'><name>a b</name></domain>";
const VMI = '{"metadata": {"name": "it\'s"}}';

/** Like pflag in KubeVirt's programs: by name, in any order. Source: KubeVirt cmd/sidecars/smbios/smbios.go */
const BY_NAME = `#!/bin/sh
while [ $# -gt 1 ]; do
  case $1 in --vmi) vmi=$2 ;; --domain) domain=$2 ;; --cloud-init) data=$2 ;; *) exit 3 ;; esac
  shift 2
done
printf '%s\\n%s' "$vmi" "$domain\${data-}"
`;
/**
 * Like KubeVirt's scripts in ConfigMaps. Source: KubeVirt cmd/sidecars/README.md, my_script.sh and main(sys.argv[4])
 */
const BY_PLACE = `#!/bin/sh
printf '%s\\n%s' "$2" "$4"
`;

let root = "";
let shim: ChildProcess | undefined;

beforeAll(() => {
  makeImages(CACHE, "sidecar-shim");
  root = unpackRoot(join(CACHE, "sidecar-shim.tar"));
}, MADE_MS);
afterEach(async () => {
  if (shim?.exitCode === null && shim.signalCode === null) {
    const ended = once(shim, "exit");
    shim.kill("SIGTERM");
    await ended;
  }
  for (const name of ["onDefineDomain", "preCloudInitIso"]) {
    rmSync(join(root, "usr/bin", name), { force: true });
  }
});
afterAll(() => {
  rmSync(dirname(root), { recursive: true, force: true });
});

/** Its volume's path in its container: /var/run is /run there. */
const volume = (): string => join(root, "run/kubevirt-hooks");

function addProgram(name: string, text: string): void {
  writeFileSync(join(root, "usr/bin", name), text);
  chmodSync(join(root, "usr/bin", name), 0o755);
}

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
  rmSync(volume(), { recursive: true, force: true });
  mkdirSync(volume());
  chownSync(volume(), LAUNCHER, LAUNCHER);
  const user = `--userspec=${String(LAUNCHER)}:${String(LAUNCHER)}`;
  shim = spawn("chroot", [user, root, "/usr/bin/sidecar-shim", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: "/usr/sbin:/usr/bin", ...env },
  });
  return shim;
}

/** Its output until it listens. */
async function listening(child: ChildProcess): Promise<string> {
  let output = "";
  child.stdout?.on("data", (chunk: Buffer) => (output += chunk.toString("utf8")));
  await eventually(() => output.includes("\n") && existsSync(join(volume(), "shim.sock")), {
    withinMs: 30_000,
  });
  return output;
}

async function connected<T>(use: (hook: HookSidecar) => Promise<T>): Promise<T> {
  const hooks = createHookSidecars({
    starter: createBuiltChildStarter(),
    clock: createClock(),
    openSocket: () => openVolumeSocket({ directory: root, path: "run/kubevirt-hooks" }),
  });
  const hook = await hooks.connect(POD, "hook-sidecar-0");
  try {
    return await use(hook);
  } finally {
    await hook.close();
  }
}

const points = (...names: readonly string[]) => names.map((name) => ({ name, priority: 0 }));

describe("a KubeVirt command line", () => {
  test.each([
    {
      name: "of examples/vmi-with-sidecar-hook.yaml, smbios",
      args: ["--version", "v1alpha2"],
      versions: ["v1alpha2"],
      hookPoints: points("OnDefineDomain"),
    },
    {
      name: "of examples/vmi-with-sidecar-hook-configmap.yaml, later version",
      args: ["--version", "v1alpha3"],
      versions: ["v1alpha3"],
      hookPoints: points("OnDefineDomain", "Shutdown"),
    },
    {
      name: "with pflag's other syntax",
      args: ["--version=v1alpha2"],
      versions: ["v1alpha2"],
      hookPoints: points("OnDefineDomain"),
    },
    {
      name: "of cmd/example-hook-sidecar/README.md, without a version",
      args: [],
      versions: ["v1alpha3"],
      hookPoints: points("OnDefineDomain", "Shutdown"),
    },
  ])("accepts $name", async ({ args, versions, hookPoints }) => {
    addProgram("onDefineDomain", BY_NAME);
    await listening(start(args));
    expect(await connected((hook) => hook.info())).toEqual({ name: "shim", versions, hookPoints });
  });

  test("ends with the known versions for an unknown version", async () => {
    const child = start(["--version", "v1alpha9"]);
    let output = "";
    child.stderr?.on("data", (chunk: Buffer) => (output += chunk.toString("utf8")));
    const [code] = (await once(child, "close")) as [number | null];
    expect(code).toBe(2);
    expect(output).toContain("invalid choice: 'v1alpha9' (choose from 'v1alpha2', 'v1alpha3')");
  });
});

describe.each([
  { how: "by name, like KubeVirt's smbios", text: BY_NAME },
  { how: "by position, like KubeVirt's scripts", text: BY_PLACE },
])("a program that reads its input $how", ({ text }) => {
  test("receives the VMI and the domain", async () => {
    addProgram("onDefineDomain", text);
    await listening(start(["--version", "v1alpha2"]));
    const requested = { version: "v1alpha2", domainXml: DOMAIN, vmi: VMI } as const;
    expect(await connected((hook) => hook.onDefineDomain(requested))).toBe(`${VMI}\n${DOMAIN}`);
  });

  test("receives the VMI and cloud-init's data", async () => {
    addProgram("preCloudInitIso", text);
    await listening(start(["--version", "v1alpha3"]));
    const data = '{"UserData": "#!/bin/sh\\necho $HOME"}';
    const requested = { version: "v1alpha3", data, noCloudSource: "{}", vmi: VMI } as const;
    const answer = await connected((hook) => hook.preCloudInitIso(requested));
    expect(answer.data).toBe(`${VMI}\n${data}`);
  });
});

test("reports a failed program with its own output and names the hook in the log", async () => {
  addProgram("onDefineDomain", "#!/bin/sh\necho 'no baseBoard' >&2\nexit 4\n");
  const output = await listening(start([], { NETWORK_BINDING_PLUGIN_NAME: "passt" }));
  expect(output).toContain("for the binding passt");
  const requested = { version: "v1alpha3", domainXml: DOMAIN, vmi: VMI } as const;
  await expect(connected((hook) => hook.onDefineDomain(requested))).rejects.toMatchObject({
    code: "HOOK_FAILED",
    message: expect.stringContaining("onDefineDomain: no baseBoard") as string,
  });
});

test("ends by itself when the guest has ended", async () => {
  const child = start(["--version", "v1alpha3"]);
  await listening(child);
  const ended = once(child, "exit");
  await connected((hook) => hook.shutdown());
  expect(await ended).toEqual([0, null]);
});
