// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { makeNetwork, makePassword, makeUserData } from "./cloud-init.ts";

const KEY = "ssh-ed25519 AAAAC3 me@here";

test("a password consists of groups of unambiguous letters", () => {
  const password = makePassword((size) =>
    Uint8Array.from({ length: size }, (_, index) => index * 16),
  );
  expect(password).toMatch(/^[a-z2-9]{4}(-[a-z2-9]{4}){3}$/);
  expect(password).not.toMatch(/[01ilo]/);
  expect(makePassword((size) => new Uint8Array(size).fill(255))).not.toBe(password);
});

describe("generated user data", () => {
  test("contain the login", () => {
    const login = { user: "admin", password: "1234: #x" };
    const text = makeUserData(login, [KEY]);
    expect(text.split("\n")[0]).toBe("#cloud-config");
    expect(parse(text)).toMatchObject({
      users: [
        {
          name: "admin",
          plain_text_passwd: login.password,
          lock_passwd: false,
          shell: "/bin/bash",
          sudo: "ALL=(ALL) NOPASSWD:ALL",
          ssh_authorized_keys: [KEY],
        },
      ],
    });
  });

  test("let systemd-networkd run DHCP on NICs that are plugged later", () => {
    const text = makeUserData({ user: "me", password: "a" }, []);
    const { write_files: files, runcmd } = parse(text) as {
      readonly write_files: readonly { readonly path: string; readonly content: string }[];
      readonly runcmd: unknown;
    }; // our own text
    expect(files[0]?.path).toMatch(/^\/etc\/systemd\/network\/9.*\.network$/);
    expect(files[0]?.content.split("\n")).toEqual(
      expect.arrayContaining(["Name=en* eth*", "RequiredForOnline=no", "DHCP=ipv4"]),
    );
    expect(JSON.stringify(runcmd)).toContain("networkctl reload");
    expect(text).toContain("content: |");
  });

  test("omit the list of keys if there are none", () => {
    expect(makeUserData({ user: "me", password: "a" }, [])).not.toContain("ssh");
  });
});

test("without a login, user data add the keys to the image's own user", () => {
  const data: unknown = parse(makeUserData(undefined, [KEY]));
  expect(data).toMatchObject({ ssh_authorized_keys: [KEY], write_files: [{}] });
  expect(data).not.toHaveProperty("users");
});

describe("the network of a new VM", () => {
  const ONE = "02:00:00:00:00:01";
  const fill = (size: number): Uint8Array => new Uint8Array(size).fill(6);

  test("without further NICs keeps generated MACs and network data to admission and the image", () => {
    const macs = new Map([["default", ONE]]);
    expect(makeNetwork([], macs, fill)).toEqual({ networks: [], macs });
  });

  test("enables DHCP on each NIC by MAC and prefers the pod network's default route", () => {
    const network = makeNetwork(["other/blue"], new Map([["blue", ONE]]), fill);
    const generated = "06:06:06:06:06:06";
    expect(network.macs).toEqual(
      new Map([
        ["blue", ONE],
        ["default", generated],
      ]),
    );
    expect(parse(network.networkData ?? "")).toEqual({
      version: 2,
      ethernets: {
        default: { match: { macaddress: generated }, dhcp4: true },
        blue: {
          match: { macaddress: ONE },
          dhcp4: true,
          optional: true,
          "dhcp4-overrides": { "route-metric": 2048 },
        },
      },
    });
  });
});
