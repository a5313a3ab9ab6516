/* SPDX-License-Identifier: MIT
 *
 * The command `headway`: starts the Python that headway is installed in, without the effect of any
 * of the user's PYTHON* variables.
 *
 * A Python script would be too late: before its first line runs, PYTHONHOME can end the
 * interpreter, and PYTHONPATH and a sitecustomize can change it. And Python ignores SIGPIPE and
 * SIGXFSZ from its start on, so only a program that runs before Python knows whether they were
 * ignored already; `headway run` needs that for the program that it becomes. The environment is
 * passed on as it is: the user's program gets /proc/self/environ of the interpreter.
 *
 * In a virtual environment the interpreter is beside this file. Elsewhere, as after `pip install
 * --user`, it is the one that the first line of headway-python names, a script that is installed
 * beside this file: pip and uv write their interpreter there. Without that script, the folder
 * lib/python3.x/site-packages/headway beside the folder of this file names the version of Python.
 */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* dist-packages is Debian's folder; Debian's pip installs below local/lib. */
static const char *const PLACES[] = {
    "%s/../lib/python3.*/site-packages/headway",
    "%s/../lib64/python3.*/site-packages/headway",
    "%s/../lib/python3.*/dist-packages/headway",
};

/* -E: no PYTHON* variable acts on the interpreter. -P: no module of the current folder replaces one
 * of headway's. */
static char IGNORED[] = "headway_ignored=00,00,";
static char *OPTIONS[] = {"-E", "-P", "-X", IGNORED, "-m", "headway"};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

static const char KEPT[] = "HEADWAY_KEPT_";

static void note_ignored(void) {
    static const int numbers[] = {SIGPIPE, SIGXFSZ};
    char *end = strchr(IGNORED, '=') + 1;

    *end = '\0';
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN) {
            end += sprintf(end, "%d,", numbers[i]);
        }
    }
}

/* Renames the two variables that act on an interpreter in spite of -E. live/launch.py knows the new
 * names. */
static void rename_variables(void) {
    static const char *const names[] = {"PYTHONEXECUTABLE=", "__PYVENV_LAUNCHER__="};

    for (char **one = environ; *one != NULL; one++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (strncmp(*one, names[i], strlen(names[i])) == 0) {
                size_t size = strlen(KEPT) + strlen(*one) + 1;
                char *renamed = malloc(size);
                if (renamed != NULL) {
                    snprintf(renamed, size, "%s%s", KEPT, *one);
                    *one = renamed;
                }
                break;
            }
        }
    }
}

/* Whether a folder is the bin folder of a virtual environment. */
static bool is_venv(const char *folder) {
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/../pyvenv.cfg", folder) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

/* Returns the interpreter that the first line of a script names, or NULL. The line may name a shell
 * instead, where the interpreter's path has spaces or is long. */
static const char *named_in(const char *script, char *line, size_t size) {
    FILE *file = fopen(script, "re");
    const char *name;

    if (file == NULL) {
        return NULL;
    }
    if (fgets(line, (int)size, file) == NULL || strncmp(line, "#!/", 3) != 0) {
        line[0] = '\0';
    }
    fclose(file);
    line[strcspn(line, "\r\n")] = '\0';
    name = strrchr(line, '/');
    return name != NULL && strncmp(name + 1, "python", strlen("python")) == 0 ? line + 2 : NULL;
}

/* Becomes the interpreter that headway-python in that folder names, with that script as its
 * program. Returns whether one is named that cannot be executed. */
static bool try_named(const char *folder, char **arguments) {
    char script[PATH_MAX];
    char line[PATH_MAX];
    char **program = arguments + 1 + OPTION_COUNT - 2; /* -m headway */

    if (snprintf(script, sizeof script, "%s/headway-python", folder) >= (int)sizeof script) {
        return false;
    }
    const char *named = named_in(script, line, sizeof line);
    if (named == NULL) {
        return false;
    }
    arguments[0] = (char *)named;
    program[0] = (char[]){"--"};
    program[1] = script;
    execv(named, arguments);
    memcpy(arguments + 1, OPTIONS, sizeof OPTIONS);
    return true;
}

/* Becomes the interpreter of that name in that folder, if there is one. */
static void try_beside(const char *folder, const char *name, char **arguments) {
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path) {
        arguments[0] = path;
        execv(path, arguments);
    }
}

/* Becomes the interpreter of that name on PATH, if there is one. Virtual environments are passed
 * over: the active one is the program's, and this headway is in none. */
static void try_path(const char *name, char **arguments) {
    const char *folders = getenv("PATH");
    char *copy = strdup(folders == NULL ? "/usr/local/bin:/usr/bin:/bin" : folders);
    char *rest = NULL;

    for (char *folder = copy == NULL ? NULL : strtok_r(copy, ":", &rest); folder != NULL;
         folder = strtok_r(NULL, ":", &rest)) {
        if (!is_venv(folder)) {
            try_beside(folder, name, arguments);
        }
    }
    free(copy);
}

/* Tries each version of Python that has headway: becomes the interpreter beside this program, as in
 * a virtual environment, else the one on PATH, unless that would be another installation's. */
static void try_versions(const char *folder, bool elsewhere, char **arguments) {
    for (size_t place = 0; place < sizeof PLACES / sizeof PLACES[0]; place++) {
        char pattern[PATH_MAX];
        glob_t found;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        int length = snprintf(pattern, sizeof pattern, PLACES[place], folder);
#pragma GCC diagnostic pop
        if (length >= (int)sizeof pattern || glob(pattern, 0, NULL, &found) != 0) {
            continue;
        }
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char *begin = found.gl_pathv[i];
            for (int up = 0; up < 2;
                 up++) { /* from .../lib/python3.x/site-packages/headway to .../lib/python3.x */
                *strrchr(begin, '/') = '\0';
            }
            begin = strrchr(begin, '/') + 1;
            try_beside(folder, begin, arguments);
            if (elsewhere) {
                try_path(begin, arguments);
            }
        }
        globfree(&found);
    }
}

/* With fewer open files, headway's Python cannot even report its errors. */
enum { LEAST_OPEN_FILES = 6 };

static void check_open_files(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < LEAST_OPEN_FILES) {
        fprintf(stderr,
                "error: this process may open %d files, expected %d at least\n\nhint: raise the "
                "limit, as with `ulimit -n 1024`\n",
                (int)limit.rlim_cur, LEAST_OPEN_FILES);
        exit(1);
    }
}

int main(int count, char **given) {
    char self[PATH_MAX];
    char **arguments = calloc((size_t)count + OPTION_COUNT + 1, sizeof *arguments);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    bool is_known = false; /* whether the Python is known: any other is without this headway */
    char *slash;

    if (arguments == NULL) {
        return 127;
    }
    check_open_files();
    note_ignored();
    rename_variables();
    memcpy(arguments + 1, OPTIONS, sizeof OPTIONS);
    if (count > 1) {
        memcpy(arguments + 1 + OPTION_COUNT, given + 1, (size_t)(count - 1) * sizeof *given);
    }
    if (length < 0) { /* no /proc */
        if (realpath(given[0], self) == NULL) {
            self[0] = '\0';
        }
    } else {
        self[length] = '\0';
    }
    slash = strrchr(self, '/');
    if (slash != NULL) {
        *slash = '\0';
        bool in_venv = is_venv(self);
        is_known = in_venv || try_named(self, arguments);
        try_versions(self, !in_venv, arguments);
        try_beside(self, "python3", arguments);
    }
    if (!is_known) {
        arguments[0] = (char[]){"python3"};
        execvp("python3", arguments);
    }
    fprintf(stderr,
            "error: the Python that headway is installed in is not to be found: %s\n\nhint: run "
            "`python3 -m headway` with it, or install headway again\n",
            strerror(errno));
    return 127;
}
