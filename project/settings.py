"""All settings, read once from the environment, each with its default and an explanation."""

import os
from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from chat.upstreams.egress_proxy import EgressProxy
from project import VERSION as PROJECT_VERSION
from project import databases, env, keys, languages, mail
from project.keys import secrets_of

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = PROJECT_VERSION
_MEBIBYTE = 1024 * 1024
_DAY_SECONDS = 24 * 3600
# A century; far larger numbers exceed the range of dates.
_MOST_DAYS = 36_500

# --- locations -----------------------------------------------------------------

# Database, keys and lock file of an embedded installation. Only this user may read it.
DATA_DIR = env.folder(
    "DATA_DIR",
    BASE_DIR / "data",
    files={
        "secret-key": os.R_OK,
        "encryption-key": os.R_OK,
        "server.lock": os.R_OK | os.W_OK,
        "tributary.sqlite3": os.R_OK | os.W_OK,
    },
)

# --- keys ----------------------------------------------------------------------

# Read from the environment, or created in DATA_DIR at the first start (mode 0600).
SECRET_KEY = env.text("SECRET_KEY") or keys.secret_key(DATA_DIR)
# Older keys whose sessions and links are still valid, separated by commas.
SECRET_KEY_FALLBACKS = env.words("SECRET_KEY_FALLBACKS")
# Fernet keys that encrypt the credentials of servers, newest first, separated by commas.
ENCRYPTION_KEYS = keys.checked(
    "ENCRYPTION_KEYS", env.words("ENCRYPTION_KEYS") or keys.encryption_keys(DATA_DIR)
)

# --- addresses ------------------------------------------------------------------

DEBUG = env.flag("DEBUG", False)
# Interface and port of `manage.py serve`.
HOST = env.text("HOST") or "127.0.0.1"
PORT = env.port("PORT", 8000)
# The address that people use. Absolute links (such as invitations) are built from it, never from
# Host.
SITE_URL = env.origin(
    "SITE_URL", env.text("SITE_URL") or f"http://{env.name_of_interface(HOST)}:{PORT}"
)
# Host names that requests may have; others are refused. The default includes that of `SITE_URL`.
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS") or [
    *dict.fromkeys(["localhost", "127.0.0.1", "[::1]", *filter(None, [env.host_of(SITE_URL)])])
]
CSRF_TRUSTED_ORIGINS = env.origins("CSRF_TRUSTED_ORIGINS", SITE_URL)
# Origins whose pages may open the live websocket. On a local machine both names are in use.
LIVE_ORIGINS = env.origins("LIVE_ORIGINS") or [
    *CSRF_TRUSTED_ORIGINS,
    *(
        [f"http://{name}:{PORT}" for name in ("localhost", "127.0.0.1")]
        if HOST == "127.0.0.1"
        else []
    ),
]
# Set it if a trusted proxy terminates TLS and overwrites X-Forwarded-Proto.
BEHIND_TLS_PROXY = env.flag("BEHIND_TLS_PROXY", False)
if BEHIND_TLS_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# How many trusted proxies append to X-Forwarded-For. Sign-in limits count client addresses: with 0
# the header is ignored, and behind a proxy all users share one limit.
ALLAUTH_TRUSTED_PROXY_COUNT = int(env.number("TRUSTED_PROXY_COUNT", 0))
IS_SECURE = SITE_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_SECURE
if IS_SECURE:
    # Browsers accept these names only from this host over TLS, so no other subdomain can set them.
    SESSION_COOKIE_NAME = "__Host-sessionid"
    CSRF_COOKIE_NAME = "__Host-csrftoken"
# How long browsers insist on TLS after a visit (HSTS). 0 turns it off.
SECURE_HSTS_SECONDS = int(env.number("HSTS_SECONDS", 30 * 24 * 3600)) if IS_SECURE else 0
SESSION_ENGINE = "project.sessions"
# How long a session lasts after the sign-in, and how long without use; 0: any time without use.
SESSION_COOKIE_AGE = int(
    env.number("SESSION_DAYS", 14, at_least=0.01, at_most=_MOST_DAYS) * _DAY_SECONDS
)
SESSION_IDLE_SECONDS = int(env.number("SESSION_IDLE_HOURS", 0, at_most=_MOST_DAYS * 24) * 3600)
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# --- the application -------------------------------------------------------------

INSTALLED_APPS = [
    "daphne",
    "chat.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_htmx",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "chat.apps.ChatConfig",
]
MIDDLEWARE = [
    "project.headers.permissions_policy",
    "django.middleware.security.SecurityMiddleware",
    "chat.core.static_files.StaticFiles",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "chat.web.session_use.session_use",
    "chat.web.second_factor.second_factor",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "chat.web.time_zone.person_time_zone",
    "chat.web.views.DatabaseUnavailable",
]
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "chat.web.template_loader.Loader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": [
                "django.templatetags.i18n",
                "django.templatetags.static",
                "chat.web.tags",
                "chat.web.components",
                "chat.access_reasons.tags",
                "chat.accounts.tags",
                "chat.administration.tags",
                "chat.conversations.tags",
                "chat.forks.tags",
                "chat.identity.tags",
                "chat.imports.tags",
                "chat.inbox.tags",
                "chat.message_queue.tags",
                "chat.organization.tags",
                "chat.public_api.tags",
                "chat.tools.tags",
            ],
        },
    },
]

# --- content security --------------------------------------------------------------

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "media-src": [SELF],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    },
}

# --- records -------------------------------------------------------------------------

# SQLite in DATA_DIR, or postgres://user:password@host/name.
DATABASE_URL = env.address(
    "DATABASE_URL",
    f"sqlite:///{DATA_DIR / 'tributary.sqlite3'}",
    schemes=("sqlite", "postgres", "postgresql"),
)
DATABASE_PREPARED = env.flag("DATABASE_PREPARED", True)
DATABASES = {
    "default": databases.configured(
        DATABASE_URL,
        is_prepared=DATABASE_PREPARED,
        # As many as threads of a web process use connections: pages and stops 9, messages over websockets
        # 5, programs 5, readers of logs 4, downloads 3, checks of access and of sessions 2, writes of tabs 1.
        # With fewer, a message may wait for a connection that a page has.
        pool_size=int(env.number("DATABASE_POOL", 29, at_least=databases.POOL_KEPT)),
    )
}
# How long a page waits for PostgreSQL, all of its statements together, before it returns 503.
DATABASE_WAIT_SECONDS = env.number("DATABASE_WAIT_SECONDS", 5, at_least=0.1)
IS_SQLITE = databases.is_sqlite(DATABASES["default"])
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# If empty, notifications and recent events stay in the memory of each process.
REDIS_URL = env.address("REDIS_URL", schemes=("redis", "rediss", "unix"))

# Counters of sign-in limits, shared by all processes: in Redis, otherwise in the database. With
# SQLite there is a single process, so they stay in its memory. With Django's default of 300
# entries, an attacker could evict the counter of one account by trying others.
CACHES: dict[str, dict[str, object]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    }
}
if REDIS_URL:
    CACHES["default"] = {
        "BACKEND": "project.cache.SharedCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "tributary",
    }
elif not IS_SQLITE:
    CACHES["default"] |= {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "chat_cache",
    }

# --- processes -------------------------------------------------------------------------

# "embedded": the server process executes the runs. "external": `manage.py runner` does.
RUNNER = env.text("RUNNER", "embedded")
# Page requests that one process handles at once, and one more if it is a message; further ones wait.
# More would compete for one core with each other and with every live connection, and need a database
# connection each.
MAX_CONCURRENT_REQUESTS = int(env.number("MAX_CONCURRENT_REQUESTS", 4, at_least=1))
# A POST to these comes before other requests that wait: someone has written, and waits for an answer, or
# stops one, which costs money for every second until then.
MESSAGE_URLS = r"/c/|/c/[0-9a-f-]{36}/send/|/m/[0-9a-f-]{36}/(edit|retry)/|/r/[0-9a-f-]{36}/stop/"
# Address of a runner's own `/healthz`, `/readyz` and `/metrics`; port 0 turns them off.
RUNNER_HOST = env.text("RUNNER_HOST", "127.0.0.1")
RUNNER_PORT = env.port("RUNNER_PORT", 0)
# Runs that one runner executes at once; further runs wait for another runner.
RUNNER_CAPACITY = int(env.number("RUNNER_CAPACITY", 500, at_least=1))
# How much all runs of a runner may hold in memory while the database is unavailable; beyond that
# they stop reading.
PENDING_BYTES = int(env.number("PENDING_BYTES", 256 * 1024 * 1024, at_least=_MEBIBYTE))
# How long a stopping runner lets its runs continue before it interrupts them.
DRAIN_SECONDS = env.number("DRAIN_SECONDS", 10)
# A runner counts as lost when its heartbeat is older than this; its runs are then interrupted. It
# sends six heartbeats in this time. Below two seconds, a busy machine would lose live runners.
LEASE_SECONDS = env.number("LEASE_SECONDS", 30, at_least=2, at_most=_DAY_SECONDS)

# --- LLM servers -------------------------------------------------------------------------

# Private addresses where servers are allowed, as "network:port" separated by commas
# ("10.0.0.0/8:1234,192.168.1.5:*"), or "any". LM Studio usually runs on such an address, so an
# embedded installation allows all of them.
UPSTREAM_PRIVATE_NETWORKS = env.text(
    "UPSTREAM_PRIVATE_NETWORKS", "any" if RUNNER == "embedded" else ""
)
# Ports of this machine that the page for adding servers searches when an administrator presses a button:
# LM Studio, Ollama, vLLM and llama.cpp.
SERVER_PORTS = env.ports("SERVER_PORTS", "1234,11434,8000,8080")
# Loopback ports of this installation itself, which are never allowed for servers.
OWN_PORTS = [
    port for port in (PORT, RUNNER_PORT, env.port_of(DATABASE_URL), env.port_of(REDIS_URL)) if port
]
# An HTTP egress proxy. The usual proxy variables of the environment are ignored.
UPSTREAM_PROXY = env.text("UPSTREAM_PROXY")
if UPSTREAM_PROXY:
    try:
        EgressProxy.parse(UPSTREAM_PROXY)
    except ValueError as error:
        # The address may contain a password.
        raise ImproperlyConfigured(f"UPSTREAM_PROXY {error}") from None
UPSTREAM_CONNECT_SECONDS = 10
# Seconds until the response headers arrive; a server may have to load a model first.
UPSTREAM_HEAD_SECONDS = env.number("UPSTREAM_HEAD_SECONDS", 900, at_least=0.1)
# Without any byte for so long, the connection counts as dead; without any event (comments aside),
# the answer does.
UPSTREAM_IDLE_SECONDS = env.number("UPSTREAM_IDLE_SECONDS", 120, at_least=0.1)
UPSTREAM_QUIET_SECONDS = env.number("UPSTREAM_QUIET_SECONDS", 600, at_least=0.1)
# Limits of a whole run: how long it may take, and how much the server may send for it, counted as it
# is sent. What came until then is kept.
RUN_SECONDS = env.number("RUN_SECONDS", 3600, at_least=0.1)
RUN_BYTES = int(env.number("RUN_BYTES", 64 * 1024 * 1024, at_least=1024))
# How much text of unfinished answers a process may hold in memory, where it exists up to nine times
# while a long answer is stored. Beyond that the answers end that have more than an equal share, and more
# than 1 MiB; what came of them is kept. Most answers have less than 100 kB, and one of 16 MiB would have
# four million tokens.
ANSWERS_BYTES = int(env.number("ANSWERS_BYTES", 16 * 1024 * 1024, at_least=_MEBIBYTE))
# Limits of mockups: number of files, size of one file, size of all files of a version, time for
# one.
MOCKUP_FILES = 200
MOCKUP_FILE_BYTES = 4 * _MEBIBYTE
MOCKUP_BUNDLE_BYTES = 32 * _MEBIBYTE
MOCKUP_FETCH_SECONDS = 30
# Address of the demo servers that `make run` starts; if empty, they are hidden.
DEMO_UPSTREAM_URL = env.text("DEMO_UPSTREAM_URL")
# Memory of each process for the HTML of completed answers.
ANSWER_CACHE_MB = env.number("ANSWER_CACHE_MB", 32)
# Days for which the raw frames of a run are kept with its events.
RAW_FRAMES_DAYS = env.number("RAW_FRAMES_DAYS", 30, at_most=_MOST_DAYS)
# Days for which deleted conversations can be restored.
TRASH_DAYS = env.number("TRASH_DAYS", 30, at_least=0, at_most=_MOST_DAYS)
# Days for which the file of an export can be downloaded, its largest size, and how many a person may
# have. All of a person together are no larger than one may be. The oldest are deleted first.
EXPORT_DAYS = env.number("EXPORT_DAYS", 7, at_least=0.01, at_most=_MOST_DAYS)
EXPORT_BYTES = int(env.number("EXPORT_BYTES", 10 * 1024 * _MEBIBYTE, at_least=_MEBIBYTE))
EXPORTS_PER_PERSON = int(env.number("EXPORTS_PER_PERSON", 5, at_least=1))

# --- people ------------------------------------------------------------------------------

AUTH_USER_MODEL = "chat.User"
AUTHENTICATION_BACKENDS = ["project.sessions.Backend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "home"
ACCOUNT_ADAPTER = "chat.identity.adapter.AccountAdapter"
ACCOUNT_FORMS = {"reset_password": "chat.accounts.reset_mail.ResetPasswordForm"}
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_PREVENT_ENUMERATION = True
# No mail to addresses without an account.
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
# allauth would begin each subject with the request's host, which the sender of the request chooses.
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
# Reset links become invalid when the user's permissions change, and after a day.
ACCOUNT_PASSWORD_RESET_TOKEN_GENERATOR = "chat.accounts.adapter.ResetTokenGenerator"  # noqa: S105
PASSWORD_RESET_TIMEOUT = int(env.number("PASSWORD_RESET_SECONDS", _DAY_SECONDS, at_least=60))
# The people who must use two-step verification: nobody ("off"), "administrators", or "all". Until they have set it up, they
# see nothing else, and their access tokens don't work. Everyone may use it.
SECOND_FACTOR = env.choice("SECOND_FACTOR", "off", ("off", "administrators", "all"))
MFA_ADAPTER = "chat.accounts.two_step.adapter.TwoStepAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
# A phone whose clock is up to 30 seconds off still works. Each code works once, whatever its time is.
MFA_TOTP_TOLERANCE = 1
# Addresses are not verified here: invitations and administrators bring them.
MFA_ALLOW_UNVERIFIED_EMAIL = True
# Long enough to fill in the form of a server.
ACCOUNT_REAUTHENTICATION_TIMEOUT = 15 * 60
MFA_FORMS = {
    "authenticate": "chat.accounts.two_step.forms.CodeForm",
    "reauthenticate": "chat.accounts.two_step.forms.ConfirmCodeForm",
    "activate_totp": "chat.accounts.two_step.forms.AddAppForm",
    "authenticate_webauthn": "chat.accounts.two_step.forms.PasskeyForm",
    "login_webauthn": "chat.accounts.two_step.forms.PasskeySignInForm",
    "reauthenticate_webauthn": "chat.accounts.two_step.forms.ConfirmPasskeyForm",
    "add_webauthn": "chat.accounts.two_step.forms.AddPasskeyForm",
    "edit_webauthn": "chat.accounts.two_step.forms.RenamePasskeyForm",
}
CSRF_FAILURE_VIEW = "chat.web.views.csrf_failed"
INVITATION_DAYS = env.number("INVITATION_DAYS", 7, at_least=0.01, at_most=_MOST_DAYS)

# --- company sign-in ------------------------------------------------------------------------

# OpenID Connect providers as a JSON object: a short name for addresses, and for each "name", "issuer",
# "client_id", "client_secret" and, if need be, "scopes", "groups_claim". Others are set up in the interface.
OIDC_PROVIDERS = env.identity_providers("OIDC_PROVIDERS")
# A session that began at a provider ends after so long, because not every provider says when a person leaves.
PROVIDER_SESSION_HOURS = env.number(
    "PROVIDER_SESSION_HOURS", 12, at_least=0.01, at_most=_MOST_DAYS * 24
)
# Access tokens of people who sign in at a provider stop working when their last sign-in is older.
PROVIDER_TOKEN_DAYS = env.number("PROVIDER_TOKEN_DAYS", 30, at_least=0.01, at_most=_MOST_DAYS)

# --- mail -----------------------------------------------------------------------------------

# The name or address of a mail server. Without one no mail is sent, and administrators create links to
# reset a password.
EMAIL_HOST = env.text("EMAIL_HOST")
EMAIL_BACKEND = (
    "project.mail.EmailBackend" if EMAIL_HOST else "django.core.mail.backends.dummy.EmailBackend"
)
# If the mail server wants a sign-in.
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD")
# The password as it goes over the line, which logs and errors must not show.
EMAIL_SECRETS = mail.spellings_of_password(EMAIL_HOST_USER, EMAIL_HOST_PASSWORD)
# TLS from the start (SSL) or after STARTTLS (TLS), as is usual on ports 465 and 587. With a password,
# STARTTLS is the default, so that it is never sent in the clear unless somebody sets EMAIL_USE_TLS=0.
EMAIL_PORT = env.port("EMAIL_PORT", 0)
EMAIL_USE_SSL = env.flag("EMAIL_USE_SSL", EMAIL_PORT == mail.TLS_PORT)
EMAIL_USE_TLS = env.flag(
    "EMAIL_USE_TLS",
    not EMAIL_USE_SSL and (EMAIL_PORT == mail.STARTTLS_PORT or bool(EMAIL_HOST_PASSWORD)),
)
# The default is 465 with SSL, 587 with TLS, otherwise 25.
EMAIL_PORT = EMAIL_PORT or mail.usual_port(use_ssl=EMAIL_USE_SSL, use_tls=EMAIL_USE_TLS)
# Files with a certificate of this client and its key, if the mail server wants one. The key may be in
# the first file, too, and must not be encrypted.
EMAIL_SSL_CERTFILE = env.text("EMAIL_SSL_CERTFILE")
EMAIL_SSL_KEYFILE = env.text("EMAIL_SSL_KEYFILE")
# How long each step waits for the mail server: the connection, and each of its replies.
EMAIL_TIMEOUT = env.number("EMAIL_TIMEOUT", 10, at_least=0.1, at_most=600)
# The sender. By default the address in EMAIL_HOST_USER, or noreply at the host of SITE_URL.
DEFAULT_FROM_EMAIL = mail.sender(
    "DEFAULT_FROM_EMAIL", mail.default_sender(EMAIL_HOST_USER, SITE_URL)
)
# The sender and the beginning of the subject of mail to administrators, which Django can send.
SERVER_EMAIL = mail.sender("SERVER_EMAIL", DEFAULT_FROM_EMAIL)
EMAIL_SUBJECT_PREFIX = env.text("EMAIL_SUBJECT_PREFIX") or "[Tributary] "
# The date of a message in TIME_ZONE instead of UTC.
EMAIL_USE_LOCALTIME = env.flag("EMAIL_USE_LOCALTIME", False)
mail.refuse_contradictions(
    host=EMAIL_HOST,
    user=EMAIL_HOST_USER,
    password=EMAIL_HOST_PASSWORD,
    use_ssl=EMAIL_USE_SSL,
    use_tls=EMAIL_USE_TLS,
    certificate=EMAIL_SSL_CERTFILE,
    key=EMAIL_SSL_KEYFILE,
)

# --- files, time, language ------------------------------------------------------------------

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Hashed and compressed files, which a server builds at startup if the source has changed; an image
# contains them already. With DEBUG the source tree is served.
STATIC_ROOT = Path(env.text("STATIC_ROOT") or DATA_DIR / "static").resolve()
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
WHITENOISE_AUTOREFRESH = DEBUG
STORAGES: dict[str, dict[str, object]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "chat.core.static_files.HashedStorage"},
}
# The storage for the bytes of files, if they are not to be in the database: a directory that all processes
# share, or the class of a Django storage backend with its options as a JSON object.
FILES_DIR = env.text("FILES_DIR")
FILES_BACKEND = env.text("FILES_BACKEND")
FILES_OPTIONS = env.json_object("FILES_OPTIONS")
if FILES_DIR and FILES_BACKEND:
    raise ImproperlyConfigured("FILES_DIR and FILES_BACKEND can’t both be set")
if FILES_DIR:
    STORAGES["files"] = {
        "BACKEND": "chat.core.file_storage.DirectoryStorage",
        "OPTIONS": {"location": env.shared_folder("FILES_DIR")},
    }
elif FILES_BACKEND:
    STORAGES["files"] = {"BACKEND": FILES_BACKEND, "OPTIONS": FILES_OPTIONS}
# Where the bytes of new files go: "storage" or "database". Each file is read from where it is.
NEW_FILES_IN = env.choice(
    "NEW_FILES_IN",
    "storage" if "files" in STORAGES else "database",
    ("storage", "database") if "files" in STORAGES else ("database",),
)
# One language for the whole installation, because everyone in a room sees the same rendered answer.
# English is in the source; other languages are folders of locale/, and DATA_DIR/locale can override
# texts.
LOCALE_PATHS = [DATA_DIR / "locale", BASE_DIR / "locale"]
LANGUAGES = [("en", "English"), *languages.installed(LOCALE_PATHS)]
LANGUAGE_CODE = env.choice("INTERFACE_LANGUAGE", "en", tuple(code for code, _ in LANGUAGES))
# Used for people whose browser hasn't sent theirs yet, and for commands and logs.
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
USE_TZ = True
USE_I18N = True
FORMAT_MODULE_PATH = "project.formats"

# --- limits ------------------------------------------------------------------------------------

# Size of a form; larger bodies are refused before they are read.
MAX_BODY_BYTES = int(env.number("MAX_BODY_BYTES", 2 * 1024 * 1024))
# Size of a file that is attached, of those that are added to a project at once, and of a message of the
# API with its pictures.
MAX_UPLOAD_BYTES = int(env.number("MAX_UPLOAD_BYTES", 20 * 1024 * 1024))
# Files of a message, whatever they are.
FILES_PER_MESSAGE = int(env.number("FILES_PER_MESSAGE", 20, at_least=1))
# Size of a picture, pictures per message, and decoded pixels of a picture.
PICTURE_BYTES = int(env.number("PICTURE_BYTES", 5 * 1024 * 1024))
PICTURES_PER_MESSAGE = int(env.number("PICTURES_PER_MESSAGE", 8))
PICTURE_PIXELS = 50_000_000
# Remote pictures in answers, which this server fetches on request: the time for one, how many one
# person can fetch per minute, and allowed private addresses (as in UPSTREAM_PRIVATE_NETWORKS, but
# here a model chooses the address and not an administrator).
PICTURE_FETCH_SECONDS = 15
PICTURES_PER_MINUTE = int(env.number("PICTURES_PER_MINUTE", 20))
PICTURE_PRIVATE_NETWORKS = env.text("PICTURE_PRIVATE_NETWORKS", "")
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
# Size of a file with conversations to import, which the browser sends in pieces. 2 GB is also the
# most that the readers accept.
IMPORT_BYTES = int(env.number("IMPORT_BYTES", 2048 * _MEBIBYTE))
# Memory of the process that reads such a file. One conversation, with the files in it, may have a quarter
# of that.
IMPORT_MEMORY_BYTES = int(
    env.number("IMPORT_MEMORY_BYTES", 768 * _MEBIBYTE, at_least=256 * _MEBIBYTE)
)
# The limits of reading one document, in a process of its own: memory, and seconds of the processor.
DOCUMENT_MEMORY_BYTES = int(
    env.number("DOCUMENT_MEMORY_BYTES", 512 * _MEBIBYTE, at_least=128 * _MEBIBYTE)
)
DOCUMENT_SECONDS = int(env.number("DOCUMENT_SECONDS", 60, at_least=1))
# The limits of a document: pages (slides, sheets), characters of text, and bytes once it is unpacked.
DOCUMENT_PAGES = int(env.number("DOCUMENT_PAGES", 2000, at_least=1))
DOCUMENT_CHARACTERS = int(env.number("DOCUMENT_CHARACTERS", 10_000_000, at_least=1000))
DOCUMENT_UNPACKED_BYTES = int(
    env.number("DOCUMENT_UNPACKED_BYTES", 512 * _MEBIBYTE, at_least=_MEBIBYTE)
)
# Bytes that one import may write to the database: new files, texts, and logs of answers.
IMPORT_WRITE_BYTES = int(env.number("IMPORT_WRITE_BYTES", 4096 * _MEBIBYTE, at_least=_MEBIBYTE))
# Bytes of all files of one person. Files of answers count and are always stored.
STORED_BYTES_PER_PERSON = int(
    env.number("STORED_BYTES_PER_PERSON", 20 * 1024 * _MEBIBYTE, at_least=_MEBIBYTE)
)
# Websockets and streams that one person may have open at each process; a tab needs one.
CONNECTIONS_PER_PERSON = int(env.number("CONNECTIONS_PER_PERSON", 200, at_least=1))
# Runs that one person may have in progress or queued.
RUNS_PER_PERSON = int(env.number("RUNS_PER_PERSON", 100, at_least=1))
# Comments in one conversation. Pages get all of them.
COMMENTS_PER_CONVERSATION = int(env.number("COMMENTS_PER_CONVERSATION", 500, at_least=1))
# Comments that one person may write in a minute.
COMMENTS_PER_MINUTE = int(env.number("COMMENTS_PER_MINUTE", 30, at_least=1))
# Ratings of answers that one person may give, change or withdraw in a minute.
FEEDBACK_PER_MINUTE = int(env.number("FEEDBACK_PER_MINUTE", 60, at_least=1))
# The feedback that administrators can export: nothing ("off"), ratings without any text ("ratings"), or also notes and
# the conversations up to the rated answers ("conversations"), of conversations that whole teams read.
FEEDBACK_EXPORT = env.choice("FEEDBACK_EXPORT", "ratings", ("off", "ratings", "conversations"))
# Size of a tool result or of the reply to a question, in UTF-8.
TOOL_RESULT_BYTES = int(env.number("TOOL_RESULT_BYTES", 512 * 1024))
# Calls of tools that one answer, and one runner, runs at the same time. One person gets a quarter of a runner's.
TOOL_CALLS_AT_ONCE = int(env.number("TOOL_CALLS_AT_ONCE", 4, at_least=1))
TOOL_CALLS_PER_RUNNER = int(env.number("TOOL_CALLS_PER_RUNNER", 32, at_least=1))
# How long a call may take, and the connection to its server.
TOOL_CALL_SECONDS = env.number("TOOL_CALL_SECONDS", 600, at_least=1, at_most=_DAY_SECONDS)
# How long a call that is open at a server of an older version waits for the answer of a person.
TOOL_INPUT_SECONDS = env.number("TOOL_INPUT_SECONDS", 900, at_least=1, at_most=_DAY_SECONDS)
TOOL_CONNECT_SECONDS = env.number("TOOL_CONNECT_SECONDS", 10, at_least=1)
# How long a request of the API waits for calls, such as for an approval, before it ends without their results.
API_CALL_WAIT_SECONDS = env.number("API_CALL_WAIT_SECONDS", 3600, at_least=1, at_most=_DAY_SECONDS)
# Bytes of a response, with pictures and other files. Of its text the model gets TOOL_RESULT_BYTES.
TOOL_RESPONSE_BYTES = int(env.number("TOOL_RESPONSE_BYTES", 5 * _MEBIBYTE, at_least=1024))
# Rounds and calls of one answer after which somebody has to approve the next.
TOOL_ROUNDS = int(env.number("TOOL_ROUNDS", 25, at_least=1))
TOOL_CALLS = int(env.number("TOOL_CALLS", 100, at_least=1))
# Definitions of tools in a request. Of more, the model gets names and first sentences, and looks up the rest.
TOOLS_IN_REQUEST = int(env.number("TOOLS_IN_REQUEST", 40, at_least=0))
# True if owners and admins of teams may add servers of tools, and HTTP tools. Otherwise administrators do.
TEAM_TOOL_SERVERS = env.flag("TEAM_TOOL_SERVERS", False)
# Commands that speak MCP over their standard input and output. Runners start them, for administrators' tool servers.
TOOL_COMMANDS = env.command_lines("TOOL_COMMANDS")
# How long the claim of a question keeps others from answering it.
CLAIM_SECONDS = env.number("CLAIM_SECONDS", 120, at_least=1, at_most=_DAY_SECONDS)

# --- access to metrics ----------------------------------------------------------------------------

# `/metrics` and the details of `/readyz` are available to administrators, to these addresses, and
# with the token. Behind proxies, TRUSTED_PROXY_COUNT determines which address counts.
METRICS_NETWORKS = env.networks("METRICS_NETWORKS", "127.0.0.1/32,::1/128")
METRICS_TOKEN = env.text("METRICS_TOKEN")

# --- logs -----------------------------------------------------------------------------------------

LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"))
# "line" for people, "json" for collectors.
LOG_FORMAT = env.choice("LOG_FORMAT", "line", ("line", "json"))
# Both formats hide these secrets, and show the texts of all exceptions only with DEBUG.
_DISCREET = {
    "secrets": secrets_of(
        *(DATABASE_URL, REDIS_URL, UPSTREAM_PROXY, METRICS_TOKEN),
        *(SECRET_KEY, *SECRET_KEY_FALLBACKS, *ENCRYPTION_KEYS),
        *EMAIL_SECRETS,
        *(provider["client_secret"] for provider in OIDC_PROVIDERS.values()),
        *(value for _, added in TOOL_COMMANDS.values() for value in added.values()),
        *(value for value in FILES_OPTIONS.values() if isinstance(value, str)),
    ),
    "with_texts": DEBUG,
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "project.logs.LineFormatter",
            "fmt": "{asctime} {levelname} {name} {message}",
            "style": "{",
            **_DISCREET,
        },
        "json": {"()": "project.logs.JsonFormatter", **_DISCREET},
    },
    "filters": {"counted": {"()": "project.logs.Counted"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["counted"],
        }
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # One line per request and per frame is noise.
        "daphne": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        # These write what tools and their servers sent.
        "mcp": {"level": "CRITICAL"},
        "httpx2": {"level": "CRITICAL"},
        "httpcore2": {"level": "CRITICAL"},
        "django.server": {"level": "WARNING"},
        # Anyone can cause this error, which would log a traceback of forty lines each time.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        # With DEBUG it would log a line for each block of each frame.
        "markdown_it": {"level": "INFO"},
        # With DEBUG it would log every statement with its values, such as prompts and answers.
        "django.db.backends": {"level": "INFO"},
    },
}
