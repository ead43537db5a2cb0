// SPDX-License-Identifier: Apache-2.0
// What is written to the host and removed from it, on fake files and programs.
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { describe, expect, test, vi } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { writeDefaultNetwork, removeCniResults } from "./cni.ts";
import { removeLoops } from "./leftovers.ts";
import { removeMasquerade, removeServiceRules } from "./rules.ts";
import {
  findService,
  installService,
  isServiceOf,
  stopService,
  buildUnitText,
  uninstallService,
} from "./service-unit.ts";

const PATHS = buildPaths("/d");
const RESULTS = "/var/lib/cni/results";
const SETTINGS = {
  apiPort: 1,
  virtApiPort: 2,
  virtHandlerPort: 3,
  nodeName: "n",
  podSubnet: "10.88.111.0/24",
  serviceSubnet: "10.96.0.0/16",
  bridge: "patchbay0",
};

/** A host whose programs answer so; all others succeed without output. */
function host(answers: Readonly<Record<string, Partial<CommandResult>>> = {}) {
  const names = ["ip", "nft", "iptables", "iptables-restore", "losetup", "systemctl"];
  const missing = Object.entries(answers).filter(([, { exitCode }]) => exitCode === 127);
  const programs = names
    .filter((name) => !missing.some(([other]) => other === name))
    .map((name) => [name, () => answers[name] ?? {}] as const);
  const runner = createFakeProcessRunner(Object.fromEntries(programs));
  const files = createFakeFiles();
  const notes: string[] = [];
  const note = (level: string) => (message: string) => {
    notes.push(`${level}: ${message}`);
  };
  const log = { ...createSilentLogger(), info: note("info"), warn: note("warn") };
  const toLine = ({ argv }: Command): string => argv.join(" ");
  return {
    files,
    runner,
    log,
    notes,
    paths: PATHS,
    bootId: "b1",
    lines: () => runner.commands.map(toLine),
    stdins: () => runner.commands.map(({ stdin }) => stdin),
  };
}

describe("the systemd unit", () => {
  const FILE = "/etc/systemd/system/patchbay.service";
  const LINK = "/etc/systemd/system/multi-user.target.wants/patchbay.service";
  const commandOf = (dataDir: string) => ["/bin/node", "main.js", JSON.stringify({ dataDir })];

  async function systemdHost(answers: Parameters<typeof host>[0] = {}) {
    const here = host(answers);
    await here.files.ensureDirectory("/run/systemd/system");
    return here;
  }

  test("is written and enabled, and found again with its data directory", async () => {
    const here = await systemdHost();
    const dataDir = String.raw`/d "50%" $HOME \d`;
    expect(await findService(here.files)).toBeUndefined();
    await installService(here, dataDir, commandOf(dataDir));
    expect(await here.files.readText(FILE)).toBe(buildUnitText(commandOf(dataDir)));
    expect(here.lines()).toEqual(["systemctl daemon-reload", "systemctl enable patchbay.service"]);
    await here.files.writeAtomic(LINK, "");
    const service = { dataDir, isPackaged: false, startsAtBoot: true };
    expect(await findService(here.files)).toEqual(service);
  });

  test("is not written where systemd does not run", async () => {
    const here = host();
    const installing = installService(here, "/d", commandOf("/d"));
    await expect(installing).rejects.toMatchObject({ code: "STANDALONE_NO_SYSTEMD" });
    expect([here.files.paths, here.lines()]).toEqual([[], []]);
  });

  test("is restored if systemctl fails", async () => {
    const here = await systemdHost({ systemctl: { exitCode: 1, stderr: "no bus\n" } });
    const installing = installService(here, "/d", commandOf("/d"));
    await expect(installing).rejects.toMatchObject({
      code: "OS_PROGRAM_FAILED",
      details: { program: "systemctl daemon-reload", stderr: "no bus" },
    });
    expect(await here.files.exists(FILE)).toBe(false);
  });

  test("of another machine is neither replaced nor removed", async () => {
    const here = await systemdHost();
    await installService(here, "/d", commandOf("/d"));
    const installing = installService(here, "/e", commandOf("/e"));
    await expect(installing).rejects.toMatchObject({ details: { dataDir: "/d" } });
    expect(await uninstallService(here, "/e")).toBe(false);
    expect(await here.files.readText(FILE)).toBe(buildUnitText(commandOf("/d")));
    expect([await isServiceOf(here.files, "/d"), await isServiceOf(here.files, "/e")]).toEqual([
      true,
      false,
    ]);
  });

  test("is removed by its own machine", async () => {
    const here = await systemdHost();
    await installService(here, "/d", commandOf("/d"));
    expect(await uninstallService(here, "/d")).toBe(true);
    expect(await here.files.exists(FILE)).toBe(false);
    expect(here.lines().slice(2)).toEqual([
      "systemctl disable patchbay.service",
      "systemctl daemon-reload",
    ]);
  });

  test("of the Debian package is enabled and disabled, but not changed", async () => {
    const here = await systemdHost();
    const packaged = "/usr/lib/systemd/system/patchbay.service";
    const text = buildUnitText(commandOf("/d"));
    await here.files.writeAtomic(packaged, text);
    await installService(here, "/d", commandOf("/d"));
    await here.files.writeAtomic(LINK, "");
    expect(await uninstallService(here, "/d")).toBe(true);
    expect(await here.files.readText(packaged)).toBe(text);
    expect(await here.files.exists(FILE)).toBe(false);
    expect(here.lines()).toEqual([
      "systemctl enable patchbay.service",
      "systemctl disable patchbay.service",
    ]);
  });

  test("quotes what systemd would replace", () => {
    const [line] = buildUnitText(["a b", String.raw`c\"d`, "50%", "$HOME"])
      .split("\n")
      .filter((one) => one.startsWith("ExecStart="));
    expect(line).toBe(String.raw`ExecStart="a b" "c\\\"d" "50%%" "$$HOME"`);
  });

  test("is stopped without waiting, because the caller is one of its processes", async () => {
    const here = host();
    await stopService(here.runner);
    expect(here.lines()).toEqual(["systemctl stop --no-block patchbay.service"]);
  });
});

describe("the default network", () => {
  const FILE = `${PATHS.cniConf}/10-patchbay.conflist`;

  test("is written once, and again when its settings change", async () => {
    const { files } = host();
    await writeDefaultNetwork(files, PATHS, SETTINGS);
    const first = await files.readText(FILE);
    expect(JSON.parse(first ?? "")).toMatchObject({ name: "patchbay" });
    const writing = vi.spyOn(files, "writeAtomic");
    await writeDefaultNetwork(files, PATHS, SETTINGS);
    expect(writing).toHaveBeenCalledTimes(0);
    await writeDefaultNetwork(files, PATHS, { ...SETTINGS, bridge: "other0" });
    expect(writing).toHaveBeenCalledTimes(1);
    expect(await files.readText(FILE)).toContain('"bridge": "other0"');
  });

  test("is not written if the user has a network", async () => {
    const { files } = host();
    await files.writeAtomic(`${PATHS.cniConf}/20-own.conflist`, "{}");
    await writeDefaultNetwork(files, PATHS, SETTINGS);
    expect(await files.list(PATHS.cniConf)).toEqual(["20-own.conflist"]);
  });
});

test("removes results of the machine's own networks only", async () => {
  const { files } = host();
  const resultOf = (config: string): string =>
    JSON.stringify({ config: Buffer.from(config).toString("base64") });
  await files.writeAtomic(`${PATHS.cniConf}/1.conflist`, "ours");
  await files.writeAtomic(`${RESULTS}/a`, resultOf("ours"));
  await files.writeAtomic(`${RESULTS}/b`, resultOf("theirs"));
  await files.writeAtomic("/d/containerd/own-network/1.conflist", "for own default networks");
  await files.writeAtomic(`${RESULTS}/c`, resultOf("for own default networks"));
  await removeCniResults({ files, paths: PATHS });
  expect(await files.list(RESULTS)).toEqual(["b"]);
});

test("detaches loop devices of the machine's files", async () => {
  const here = host({
    losetup: { stdout: "/dev/loop0 0 /d/claims/a.img\n/dev/loop1 0 /e/b.img\n" },
  });
  await removeLoops(here);
  expect(here.lines()).toEqual([
    "losetup --list --noheadings --raw --output NAME,AUTOCLEAR,BACK-FILE",
    "losetup --detach /dev/loop0",
  ]);
  expect(here.notes).toEqual(["warn: removed a leftover loop device"]);
});

describe("masquerade rules of the default network", () => {
  const RULE = "-A POSTROUTING -s 10.88.111.2/32 -j CNI-d1ea458b499ca99cf43d02c9";
  const FAILED = "warn: leftover masquerade rules cannot be removed";
  const DONE = "info: removed leftover masquerade rules";

  test.each([
    { name: "are removed", answers: { iptables: { stdout: RULE } }, restores: 1, notes: [DONE] },
    { name: "may be missing", answers: {}, restores: 0, notes: [] },
    {
      name: "are logged if the removal fails",
      answers: { iptables: { stdout: RULE }, "iptables-restore": { exitCode: 1 } },
      restores: 1,
      notes: [FAILED],
    },
    {
      name: "remain if iptables is missing",
      answers: { iptables: { exitCode: 127 } },
      restores: 0,
      notes: [FAILED],
    },
  ])("$name", async ({ answers, restores, notes }) => {
    const here = host(answers);
    await here.files.writeAtomic(PATHS.settings, JSON.stringify(SETTINGS));
    await removeMasquerade(here);
    const restored = here.lines().filter((line) => line === "iptables-restore --noflush");
    expect(restored).toHaveLength(restores);
    expect(here.notes).toEqual(notes);
    const chain = "CNI-d1ea458b499ca99cf43d02c9";
    const text = `*nat\n${RULE.replace("-A", "-D")}\n-F ${chain}\n-X ${chain}\nCOMMIT\n`;
    expect(here.stdins().filter((stdin) => stdin !== undefined)).toEqual(
      restores === 0 ? [] : [text],
    );
  });
});

describe("nft rules of Services", () => {
  test.each([
    { name: "are removed", settings: JSON.stringify(SETTINGS), answers: {}, count: 3, notes: [] },
    { name: "are unknown without settings", settings: "{}", answers: {}, count: 0, notes: [] },
    {
      name: "remain if nft is missing",
      settings: JSON.stringify(SETTINGS),
      answers: { nft: { exitCode: 127 } },
      count: 2,
      notes: ["warn: service rules cannot be removed"],
    },
  ])("$name", async ({ settings, answers, count, notes }) => {
    const here = host(answers);
    await here.files.writeAtomic(PATHS.settings, settings);
    await removeServiceRules(here);
    expect(here.lines()).toHaveLength(count);
    expect(here.notes).toEqual(notes);
  });
});
