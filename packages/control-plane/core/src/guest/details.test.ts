// SPDX-License-Identifier: Apache-2.0
// What of a guest's words about its users, disks and system is told, and in which form.
import { expect, test } from "vitest";
import {
  buildGuestAgentInfo,
  parseGuestFilesystems,
  parseGuestUsers,
  readGuestSystem,
} from "./details.ts";

test.each([
  {
    name: "a user with all fields",
    facts: {
      "user.count": "1",
      "user.0.name": "admin",
      "user.0.domain": "CORP",
      "user.0.login-time": "1700000000500",
    },
    want: [{ userName: "admin", domain: "CORP", loginTime: 1_700_000_000.5 }],
  },
  {
    name: "a user with only a name",
    facts: { "user.count": "1", "user.0.name": "root" },
    want: [{ userName: "root" }],
  },
  {
    name: "names with terminal control characters are omitted",
    facts: { "user.count": "2", "user.0.name": "\u001b[2J", "user.1.name": "b" },
    want: [{ userName: "b" }],
  },
  { name: "fewer users than the count", facts: { "user.count": "99999" }, want: [] },
  { name: "an invalid count", facts: { "user.count": "-1", "user.0.name": "a" }, want: [] },
  { name: "nothing", facts: {}, want: [] },
])("users: $name", ({ facts, want }) => {
  expect(parseGuestUsers(facts)).toEqual(want);
});

test("reports at most 256 entries", () => {
  const users = Array.from({ length: 300 }, (_each, at) => [`user.${String(at)}.name`, "a"]);
  const facts = { "user.count": "300", ...Object.fromEntries(users) } as Record<string, string>;
  expect(parseGuestUsers(facts)).toHaveLength(256);
});

const ROOT = {
  "fs.count": "1",
  "fs.0.name": "vda1",
  "fs.0.mountpoint": "/",
  "fs.0.fstype": "ext4",
  "fs.0.used-bytes": "1024",
  "fs.0.total-bytes": "4096",
};

test.each([
  {
    name: "has its disk",
    facts: { ...ROOT, "fs.0.disk.count": "2", "fs.0.disk.1.serial": "abc" },
    want: [
      {
        diskName: "vda1",
        mountPoint: "/",
        fileSystemType: "ext4",
        usedBytes: 1024,
        totalBytes: 4096,
        disk: [{ serial: "abc" }],
      },
    ],
  },
  {
    name: "has invalid numbers",
    facts: { ...ROOT, "fs.0.used-bytes": "many", "fs.0.total-bytes": "99999999999999999999" },
    want: [
      {
        diskName: "vda1",
        mountPoint: "/",
        fileSystemType: "ext4",
        usedBytes: 0,
        totalBytes: 0,
      },
    ],
  },
  { name: "is not mounted", facts: { "fs.count": "1", "fs.0.name": "x" }, want: [] },
])("a file system $name", ({ facts, want }) => {
  expect(parseGuestFilesystems(facts)).toEqual(want);
});

test("combines everything that the agent reports", () => {
  expect(
    buildGuestAgentInfo({
      system: { id: "debian", name: "\u0007" },
      hostname: { hostname: "web" },
      agent: {
        "agent.version": "7.2.0",
        "agent.command.count": "3",
        "agent.command.0.name": "guest-ping",
        "agent.command.0.enabled": "true",
        "agent.command.1.name": "guest-exec",
        "agent.command.1.enabled": "false",
        "agent.command.2.name": "\u001b[2J",
      },
      freeze: { "freeze.status": "frozen" },
      timezone: { "timezone.name": "CET", "timezone.offset": "3600" },
      users: {},
      filesystems: ROOT,
    }),
  ).toMatchObject({
    hostname: "web",
    os: { id: "debian" },
    guestAgentVersion: "7.2.0",
    supportedCommands: [{ name: "guest-ping", enabled: true }, { name: "guest-exec" }],
    fsFreezeStatus: "frozen",
    timezone: "CET, 3600",
    userList: [],
    fsInfo: { disks: [{ diskName: "vda1" }] },
  });
  expect(buildGuestAgentInfo({})).toEqual({});
  const odd = { "timezone.name": "CET", "timezone.offset": "soon" };
  expect(buildGuestAgentInfo({ timezone: odd, freeze: { "freeze.status": "melted" } })).toEqual({});
});

test.each([
  {
    name: "readable fields",
    given: { id: "debian", kernelRelease: "6.1.0-9" },
    want: { id: "debian", kernelRelease: "6.1.0-9" },
  },
  { name: "no empty fields", given: { id: "", name: "Debian" }, want: { name: "Debian" } },
  {
    name: "no terminal control characters",
    given: { id: "a\u001b[2J", name: "a\u202e" },
    want: {},
  },
  {
    name: "no overlong fields",
    given: { id: "a".repeat(256), name: "b".repeat(255) },
    want: { name: "b".repeat(255) },
  },
])("shows of a guest's system $name", ({ given: input, want }) => {
  expect(readGuestSystem(input)).toEqual(want);
});
