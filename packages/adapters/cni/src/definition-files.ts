// SPDX-License-Identifier: Apache-2.0
// Network configurations in files of the node, for NetworkAttachmentDefinitions without `spec.config`. Source: NPWG 1.3
// section 3.4.1; network-attachment-definition-client, cniconfig.go
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { isAppError, type Logger } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { textProblem } from "./formats.ts";

export interface DefinitionFile {
  readonly path: string;
  readonly text: string;
}

export interface DefinitionSearch {
  /** First file, in order of file names, that defines the network. Unset if no file defines the network. */
  readonly file?: DefinitionFile;
  readonly networkNames: readonly string[];
  /** Files from which no network name can be read, each with the reason. */
  readonly unreadableFiles: readonly string[];
}

export interface DefinitionFiles {
  readonly directory: string;
  /** Reads the directory at each call, because its files change. Reports unreadable files in the result. */
  find(name: string): Promise<DefinitionSearch>;
}

/** Suffixes of configuration files. Source: network-attachment-definition-client, GetCNIConfigFromFile */
const SUFFIXES: readonly string[] = [".conf", ".json", ".conflist"];

interface Deps {
  readonly files: Pick<Files, "list" | "readText">;
  readonly log: Logger;
}

type FileContent = { readonly name: string } | { readonly reason: string };

function parseContent(text: string): FileContent {
  const config = parseJson(text);
  if (!isJsonObject(config)) return { reason: textProblem(text) };
  const { name } = config;
  return typeof name === "string" && name !== "" ? { name } : { reason: "has no name" };
}

class DefinitionDirectory implements DefinitionFiles {
  readonly directory: string;
  readonly #deps: Deps;
  /** Last logged reason by file path, so that a repeated reason is logged only once. */
  readonly #loggedReasons = new Map<string, string>();

  constructor(deps: Deps, directory: string) {
    this.#deps = deps;
    this.directory = directory;
  }

  async find(name: string): Promise<DefinitionSearch> {
    const names = new Set<string>();
    const unreadable: string[] = [];
    for (const fileName of await this.#deps.files.list(this.directory)) {
      if (!SUFFIXES.some((suffix) => fileName.endsWith(suffix))) continue;
      const path = `${this.directory}/${fileName}`;
      const text = await this.#read(path);
      const content = typeof text === "string" ? parseContent(text) : text;
      this.#logOnce(path, content);
      if ("reason" in content) unreadable.push(`${fileName} ${content.reason}`);
      else names.add(content.name);
      if (typeof text === "string" && "name" in content && content.name === name) {
        return {
          file: { path, text },
          networkNames: [...names].toSorted(),
          unreadableFiles: unreadable,
        };
      }
    }
    return { networkNames: [...names].toSorted(), unreadableFiles: unreadable };
  }

  async #read(path: string): Promise<string | { readonly reason: string }> {
    try {
      return (await this.#deps.files.readText(path)) ?? { reason: "is gone" };
    } catch (error) {
      if (isAppError(error)) return { reason: `cannot be read: ${error.message}` };
      throw error;
    }
  }

  #logOnce(path: string, content: FileContent): void {
    if ("name" in content) {
      this.#loggedReasons.delete(path);
      return;
    }
    if (this.#loggedReasons.get(path) === content.reason) return;
    this.#loggedReasons.set(path, content.reason);
    this.#deps.log.warn("a file defines no network", { path, reason: content.reason });
  }
}

export function createDefinitionFiles(deps: Deps, directory: string): DefinitionFiles {
  return new DefinitionDirectory(deps, directory);
}
