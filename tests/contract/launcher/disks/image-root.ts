// SPDX-License-Identifier: Apache-2.0
// The unpacked launcher image, and prepare-disks in it as the launchers' user.
import { chownSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { names } from "@patchbay/api";
import { afterAll, beforeAll, beforeEach } from "vitest";
import { attempt, CACHE, makeImages, run, unpackRoot } from "../../images/archive.ts";

export const USER = names.LAUNCHER_UID;
export const MIB = 1 << 20;
/** Limit of image bytes visible to a guest, bytes. */
export const LIMIT = String(64 * MIB);
/** Where the image's programs see a test's files; their output is in `out` below it. */
export const WORK = "/tmp/work";
/** The output of a successful run. */
export const READY = { status: 0, said: "" };

/** The image's root file system with a container's mounts. */
export class ImageRoot {
  readonly root: string;

  constructor() {
    makeImages(CACHE, "virt-launcher");
    this.root = unpackRoot(join(CACHE, "virt-launcher.tar"));
    mkdirSync(join(this.root, "dev"), { recursive: true });
    run(["mknod", "-m", "666", join(this.root, "dev/null"), "c", "1", "3"]);
  }

  close(): void {
    rmSync(dirname(this.root), { recursive: true });
  }

  /** The path of a test's file on this machine. */
  work(...path: readonly string[]): string {
    return join(this.root, WORK, ...path);
  }

  /** Resets the directory to an empty `out`. */
  clear(): void {
    rmSync(this.work(), { recursive: true, force: true });
    mkdirSync(this.work("out"), { recursive: true });
    for (const path of [this.work(), this.work("out")]) chownSync(path, USER, USER);
  }

  made(): readonly string[] {
    return readdirSync(this.work("out")).toSorted();
  }

  run(argv: readonly string[], env: NodeJS.ProcessEnv = {}) {
    const user = `--userspec=${String(USER)}:${String(USER)}`;
    return attempt(["chroot", user, this.root, ...argv], { PATH: "/usr/sbin:/usr/bin", ...env });
  }

  /** The output of a successful program. */
  mustRun(argv: readonly string[]): string {
    const { status, stdout, stderr } = this.run(argv);
    if (status !== 0) throw new Error(stderr);
    return stdout;
  }

  /** The output and exit code of prepare-disks. */
  prepare(words: readonly string[], env: NodeJS.ProcessEnv = {}) {
    const { status, stdout, stderr } = this.run(["prepare-disks", ...words], env);
    return { status, said: `${stdout}${stderr}`.trimEnd() };
  }

  /** qemu-img's information on a test's file and each file behind it. */
  infoOf(file: string): unknown {
    const argv = ["qemu-img", "info", "--output=json", "--backing-chain", `${WORK}/${file}`];
    return JSON.parse(this.mustRun(argv));
  }

  /** Creates an 8 MiB image of the format; `options` go to qemu-img. */
  makeImage(file: string, format: string, ...options: readonly string[]): void {
    const directory = dirname(this.work(file));
    mkdirSync(directory, { recursive: true });
    chownSync(directory, USER, USER);
    const argv = ["qemu-img", "create", "-q", "-f", format, ...options];
    this.mustRun([...argv, `${WORK}/${file}`, "8M"]);
  }

  /** Files of an ISO image with their contents. */
  readIso(file: string): Readonly<Record<string, string>> {
    const out = this.work("unpacked");
    mkdirSync(out);
    chownSync(out, USER, USER);
    const to = ["-osirrox", "on", "-extract", "/", `${WORK}/unpacked`];
    this.mustRun(["xorriso", "-indev", `${WORK}/${file}`, ...to]);
    const found = readdirSync(out, { recursive: true, encoding: "utf8" }).filter((path) =>
      statSync(join(out, path)).isFile(),
    );
    const texts = found.map((path) => [path, readFileSync(join(out, path), "utf8")] as const);
    return Object.fromEntries(texts);
  }
}

/** One image for all tests of a file, empty at the start of each; the test runner's hooks create and remove it. */
export function useImageRoot(): () => ImageRoot {
  let image: ImageRoot | undefined;
  beforeAll(() => {
    image = new ImageRoot();
  }, 300_000);
  beforeEach(() => {
    image?.clear();
  });
  afterAll(() => {
    image?.close();
  });
  return () => {
    if (image === undefined) throw new Error("the image is made before the first test");
    return image;
  };
}
