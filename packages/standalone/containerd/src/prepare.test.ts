// SPDX-License-Identifier: Apache-2.0
// What is written before containerd starts.
import { isAppError, type AppError } from "@patchbay/base";
import { createFakeFiles, createFakeProcessRunner, type FakeFiles } from "@patchbay/os/testing";
import type { CommandResult } from "@patchbay/core/interfaces";
import { beforeEach, describe, expect, test } from "vitest";
import { buildLayout } from "./layout.ts";
import { containerdCommand, prepareContainerd, removeDeadSocket } from "./prepare.ts";

const layout = buildLayout({ directory: "/d/c", runDirectory: "/run/c", cniConfDirectory: "/net" });
const SPEC = JSON.stringify({ process: { args: ["sh"], rlimits: [] } });

let files: FakeFiles;
let writes: string[];
let modes: string[];

beforeEach(() => {
  files = createFakeFiles();
  writes = [];
  modes = [];
  const write = files.writeAtomic.bind(files);
  files.writeAtomic = (...call) => {
    writes.push(call[0]);
    return write(...call);
  };
  const ensure = files.ensureDirectory.bind(files);
  files.ensureDirectory = (...call: readonly [string, number?]) => {
    modes.push(`${call[0]} ${call[1]?.toString(8) ?? "-"}`);
    return ensure(...call);
  };
});

async function prepare(
  results: Partial<Record<"mount" | "ctr" | "ln", Partial<CommandResult>>> = {},
  bootId = "boot-1",
  more: Partial<Parameters<typeof prepareContainerd>[1]> = {},
) {
  const runner = createFakeProcessRunner({
    mount: () => results.mount ?? {},
    umount: () => ({}),
    ctr: () => results.ctr ?? { stdout: SPEC },
    ln: () => results.ln ?? {},
  });
  const options = { sandboxImage: "pause", bootId, ...more };
  const snapshotter = await prepareContainerd({ files, runner, layout }, options);
  return { snapshotter, commands: runner.commands.map(({ argv }) => argv.join(" ")) };
}

describe("preparation of a containerd", () => {
  const trial = "/d/c/overlay-trial";

  test("writes directories, a configuration and a base specification", async () => {
    const { snapshotter, commands } = await prepare();
    expect(snapshotter).toBe("overlayfs");
    expect(commands).toEqual([
      `mount -t overlay overlay -o lowerdir=${trial}/lower,upperdir=${trial}/upper,workdir=${trial}/work ${trial}/merged`,
      `umount ${trial}/merged`,
      "ctr oci spec",
    ]);
    expect(modes.slice(0, 7)).toEqual([
      "/d -",
      "/d/c 711",
      "/d/c/root 711",
      "/d/c/state 711",
      "/run/c 700",
      "/d/c/opt 700",
      "/d/c/registries 700",
    ]);
    expect(writes).toEqual([layout.stateBoot, layout.baseSpec, layout.config]);
    expect(await files.readText(layout.config)).toContain('snapshotter = "overlayfs"');
    expect(await files.readText(layout.config)).toContain('sandbox_image = "pause"');
    expect(await files.readText(layout.baseSpec)).toContain('"limit": 1024');
    expect(await files.exists(trial)).toBe(false);
  });

  test("selects copied layers where overlay mounts do not work", async () => {
    const { snapshotter, commands } = await prepare({ mount: { exitCode: 32 } });
    expect([snapshotter, commands.length]).toEqual(["native", 2]);
    expect(await files.exists(trial)).toBe(false);
    expect(await files.readText(layout.config)).toContain('snapshotter = "native"');
  });

  test("does not rewrite unchanged files", async () => {
    await prepare();
    await files.writeAtomic(`${layout.state}/bundle`, "");
    writes = [];
    await prepare();
    expect(writes).toEqual([]);
    expect(await files.exists(`${layout.state}/bundle`)).toBe(true);
  });

  test("removes leftovers from before a reboot", async () => {
    await prepare();
    await files.writeAtomic(`${layout.state}/bundle`, "");
    [writes, modes] = [[], []];
    await prepare({}, "boot-2");
    expect(writes).toEqual([layout.stateBoot]);
    expect(await files.readText(layout.stateBoot)).toBe("boot-2");
    expect(await files.exists(`${layout.state}/bundle`)).toBe(false);
    expect(modes.filter((line) => line === "/d/c/state 711")).toHaveLength(2);
  });

  describe("for pods' own default networks", () => {
    const ownNetworks = { program: "/p/patchbay-cni", type: "patchbay-cni", socket: "/run/s" };

    test("links the host's plugins beside its own, and configures its own", async () => {
      await files.writeAtomic("/usr/lib/cni/bridge", "");
      await files.writeAtomic("/usr/lib/cni/host-local", "");
      const { commands } = await prepare({}, "boot-1", { ownNetworks });
      expect(commands.at(-1)).toBe(
        "ln -sf -t /d/c/cni-plugins /usr/lib/cni/bridge /usr/lib/cni/host-local /p/patchbay-cni",
      );
      const text = await files.readText("/d/c/own-network/10-patchbay.conflist");
      expect(JSON.parse(text ?? "")).toEqual({
        cniVersion: "1.0.0",
        name: "own-network",
        plugins: [{ type: "patchbay-cni", socket: "/run/s" }],
      });
      expect(await files.readText(layout.config)).toContain('cni_conf_dir = "/d/c/own-network"');
    });

    test("fails if the plugins cannot be linked", async () => {
      const ln = { exitCode: 1, stderr: "ln: no space\n" };
      await expect(prepare({ ln }, "boot-1", { ownNetworks })).rejects.toMatchObject({
        code: "OS_PROGRAM_FAILED",
        details: { program: "ln", stderr: "ln: no space" },
      });
    });
  });

  test("fails if its tool fails", async () => {
    const ctr = { exitCode: 1, stderr: "ctr: no memory\n" };
    await expect(prepare({ ctr })).rejects.toThrow("oci spec: no memory");
  });
});

test("starts containerd with its configuration, on its own socket", async () => {
  expect(containerdCommand(layout)).toEqual(["containerd", "--config", "/d/c/config.toml"]);
  await files.writeAtomic(layout.socket, "");
  await removeDeadSocket(files, layout);
  expect(await files.exists(layout.socket)).toBe(false);
});

test.each([
  { length: 85, want: undefined },
  { length: 86, want: { code: "CONTAINERD_PATH_TOO_LONG", details: { bytesOver: 1 } } },
])("a socket path of $length characters plus its name is too long: $want", ({ length, want }) => {
  const runDirectory = `/${"r".repeat(length - 1)}`;
  const error = errorOf(() => {
    buildLayout({ directory: "/d", runDirectory, cniConfDirectory: "/n" });
  });
  expect(error && { code: error.code, details: { bytesOver: error.details["bytesOver"] } }).toEqual(
    want,
  );
});

/** What the call throws. */
function errorOf(call: () => void): AppError | undefined {
  try {
    call();
    return undefined;
  } catch (error) {
    if (isAppError(error)) return error;
    throw error;
  }
}
