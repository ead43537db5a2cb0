// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import {
  addKeys,
  findLogin,
  makePassword,
  makeUserData,
  readPublicKeys,
  userDataProblem,
} from "./user-data.ts";

const KEY = "ssh-ed25519 AAAAC3 me@here";
const OTHER = "ecdsa-sha2-nistp256 AAAAE2 you";

test("a password consists of groups of unambiguous letters", () => {
  const password = makePassword(Uint8Array.from({ length: 16 }, (_, index) => index * 16));
  expect(password).toMatch(/^[a-z2-9]{4}(-[a-z2-9]{4}){3}$/);
  expect(password).not.toMatch(/[01ilo]/);
  expect(makePassword(new Uint8Array(16).fill(255))).not.toBe(password);
});

describe("readPublicKeys", () => {
  test("returns all lines except comments", () => {
    expect(readPublicKeys(`# mine\n${KEY}\n\n${OTHER}\n`, "f")).toEqual([KEY, OTHER]);
  });

  test.each([
    { text: "-----BEGIN OPENSSH PRIVATE KEY-----\n", want: "f is a private key" },
    { text: "", want: "f holds no public keys" },
    { text: `${KEY}\nhello`, want: "f holds no public keys" },
  ])("rejects the file: $want", ({ text, want }) => {
    expect(() => readPublicKeys(text, "f")).toThrow(want);
  });
});

describe("generated user data", () => {
  test("contain the login, which findLogin reads back", () => {
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
    expect(findLogin(text)).toEqual(login);
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

describe("addKeys", () => {
  test("appends keys and preserves comments", () => {
    const text = `#cloud-config\n# hello\nssh_authorized_keys: [${OTHER}]\npackages: [git] # tool\n`;
    const want = `#cloud-config\n# hello\nssh_authorized_keys: [ ${OTHER}, ${KEY} ]\npackages: [ git ] # tool\n`;
    expect(addKeys(text, [KEY])).toBe(want);
  });

  test.each(["#cloud-config\n", "#cloud-config\n# nothing\n"])(
    "adds a list of keys to %j",
    (text) => {
      expect(parse(addKeys(text, [KEY]))).toEqual({ ssh_authorized_keys: [KEY] });
    },
  );

  test("returns the user data unchanged without keys", () => {
    expect(addKeys("#!/bin/sh\n", [])).toBe("#!/bin/sh\n");
  });

  test.each([
    { text: "#!/bin/sh\n", want: "does not begin with #cloud-config" },
    { text: "#cloud-config\na: [", want: "cloud-init cannot read the user data" },
    { text: "#cloud-config\nssh_authorized_keys: me\n", want: "ssh_authorized_keys is not a list" },
    { text: "#cloud-config\n- a\n", want: "cloud-init cannot read the user data" },
  ])("$text: $want", ({ text, want }) => {
    expect(() => addKeys(text, [KEY])).toThrow(want);
  });
});

test.each([
  { text: "#cloud-config\npassword: fedora\n", want: { password: "fedora" } },
  {
    text: "#cloud-config\nusers: [default, {name: a}, {name: b, plain_text_passwd: c}]\n",
    want: { user: "b", password: "c" },
  },
  { text: "#cloud-config\nusers: [default]\n", want: undefined },
  { text: "#cloud-config\nuser: a\n", want: undefined },
  { text: "#cloud-config\npassword: 12\n", want: undefined },
  { text: "#cloud-config\n- password\n", want: undefined },
  { text: "#cloud-config\njust words\n", want: undefined },
  { text: "#cloud-config\na: [\n", want: undefined },
  { text: "#!/bin/sh\npassword: a\n", want: undefined },
  { text: "", want: undefined },
])("the login of $text is $want", ({ text, want }) => {
  expect(findLogin(text)).toEqual(want);
});

describe("userDataProblem", () => {
  test.each([
    "#cloud-config\na: 1\n",
    "#!/bin/sh\n",
    "## template: jinja\n#cloud-config\n",
    "Content-Type: multipart/mixed; boundary=x\nMIME-Version: 1.0\n",
    "MIME-Version: 1.0\n",
    "\n  #Cloud-Config\n",
    "#include\nhttps://example.com\n",
    "",
  ])("accepts %j", (text) => {
    expect(userDataProblem(text)).toBeUndefined();
  });

  test.each(["users: []\n", "# cloud-config\n", "echo hello\n"])("rejects %j", (text) => {
    expect(userDataProblem(text)).toMatch(/^cloud-init ignores user data that begin with "/);
  });
});
